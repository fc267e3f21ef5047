"""Picking a token for every row at once.

Parameters are arrays with one value a row, and a row's randomness is a key made of its seed and the number of the
draw: the same request draws the same numbers whoever is beside it. Rows that are greedy cost one argmax; a filter
costs only when some row uses it. The filters are mlx-lm's: nucleus and min_p over the untempered distribution,
then top_k, then temperature; each is a least logit, so they combine to one comparison.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from actors.generation.messages import Sampling

_BISECTIONS = 32


class RowSampler:
    """Samplers of the rows of one batch; made anew when a row joins or leaves.

    Args:
        rows: parameters in batch order.
    """

    def __init__(self, rows: Sequence[Sampling]) -> None:
        drawing = [index for index, row in enumerate(rows) if row.temperature > 0 and row.top_k != 1]
        picked = [rows[index] for index in drawing]
        self.drawing = drawing
        self._all = len(drawing) == len(rows)
        self._rows = mx.array(drawing, dtype=mx.int32) if drawing else None
        self._seeds = np.array([row.seed & (2**64 - 1) for row in picked], dtype=np.uint64)
        self._temperature = _column([row.temperature for row in picked])
        self._top_p = _optional([row.top_p if 0 < row.top_p < 1 else 1.0 for row in picked], off=1.0)
        self._min_p = _optional([row.min_p for row in picked], off=0.0)
        self._top_k = [row.top_k for row in picked] if any(row.top_k for row in picked) else None

    def __call__(self, logits: mx.array, draws: Sequence[int]) -> mx.array:
        """One token id a row, not evaluated.

        Args:
            logits: [rows, vocabulary], any float type.
            draws: how many tokens each row has drawn before.
        """
        if self._rows is None:
            return mx.argmax(logits, axis=-1).astype(mx.int32)
        keys = draw_keys(self._seeds, np.array([draws[index] for index in self.drawing], dtype=np.uint64))
        if self._all:
            return self._draw(logits, keys)
        drawn = self._draw(logits[self._rows], keys)
        tokens = mx.argmax(logits, axis=-1).astype(mx.int32)
        return mx.put_along_axis(tokens, self._rows, drawn, axis=0)

    def _draw(self, logits: mx.array, keys: np.ndarray) -> mx.array:
        logits = logits.astype(mx.float32)
        least = self._least(logits)
        if least is not None:
            logits = mx.where(logits >= least, logits, -mx.inf)
        draw = mx.vmap(lambda row, key: mx.random.categorical(row, key=key))
        return draw(logits / self._temperature, mx.array(keys)).astype(mx.int32)

    def _least(self, logits: mx.array) -> mx.array | None:
        bounds = []
        if self._top_p is not None:
            bounds.append(_nucleus(logits, self._top_p))
        if self._min_p is not None:
            bounds.append(mx.max(logits, axis=-1, keepdims=True) + mx.log(self._min_p))
        if self._top_k is not None:
            bounds.append(_kth(logits, self._top_k))
        if not bounds:
            return None
        least = bounds[0]
        for bound in bounds[1:]:
            least = mx.maximum(least, bound)
        return least


def draw_keys(seeds: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Random keys of shape [rows, 2], uint32, from 64-bit seeds and draw numbers (the SplitMix64 finalizer)."""
    with np.errstate(over="ignore"):
        mixed = seeds + (draws + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed.astype("<u8").view("<u4").reshape(-1, 2)


def _column(values: Sequence[float]) -> mx.array:
    return mx.array(list(values), dtype=mx.float32)[:, None]


def _optional(values: Sequence[float], off: float) -> mx.array | None:
    return _column(values) if any(value != off for value in values) else None


def _nucleus(logits: mx.array, mass: mx.array) -> mx.array:
    """The largest least logit whose tokens still hold `mass` of the probability. [rows, 1]

    Found by bisection over the logit: sums over the vocabulary are cheaper than sorting it, on every device.
    """
    top = mx.max(logits, axis=-1, keepdims=True)
    weights = mx.exp(logits - top)
    needed = mass * mx.sum(weights, axis=-1, keepdims=True)
    low = mx.zeros_like(top)
    high = mx.ones_like(top)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        enough = mx.sum(mx.where(weights >= middle, weights, 0), axis=-1, keepdims=True) >= needed
        low = mx.where(enough, middle, low)
        high = mx.where(enough, high, middle)
    # The top token itself must survive rounding.
    kept = mx.where(weights >= mx.minimum(low, 1.0), logits, mx.inf)
    return mx.where(mass >= 1, -mx.inf, mx.min(kept, axis=-1, keepdims=True))


def _kth(logits: mx.array, top_k: Sequence[int]) -> mx.array:
    """Each row's k-th largest logit; minus infinity where k is off or covers the vocabulary. [rows, 1]"""
    vocabulary = logits.shape[-1]
    limited = [k if 0 < k < vocabulary else 0 for k in top_k]
    widest = max(limited)
    if widest == 0:
        return mx.full((len(limited), 1), -mx.inf)
    ascending = mx.sort(mx.topk(logits, widest, axis=-1), axis=-1)
    column = mx.array([widest - k if k else 0 for k in limited], dtype=mx.int32)[:, None]
    kth = mx.take_along_axis(ascending, column, axis=-1)
    return mx.where(mx.array([k > 0 for k in limited])[:, None], kth, -mx.inf)
