"""Picking a token for every row at once.

Parameters are arrays with one value a row, and a row's randomness is a key made of its seed and the number of the
draw: the same request draws the same numbers whoever is beside it. Rows that are greedy cost one argmax; a filter
costs only when some row uses it. The filters are mlx-lm's: nucleus and min_p over the untempered distribution, then
XTC, then top_k, then temperature. All but XTC are a least logit, so they combine to one comparison.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from actors.generation.filters import kth, least_likely_above, nucleus
from actors.generation.messages import Sampling
from actors.generation.tone import Tone

_XTC_DRAW = 0x585443
"""Draw number, far from those of tokens, that gives XTC its own randomness."""


_COLDEST = 1e-6
"""Temperatures above 0 are no lower in the arithmetic: it draws like greedy by then, and float32 has room for it."""


class RowSampler:
    """Samplers of the rows of one batch; made anew when a row joins or leaves.

    Args:
        rows: parameters in batch order.
    """

    def __init__(self, rows: Sequence[Sampling]) -> None:
        drawing = [index for index, row in enumerate(rows) if _draws(row)]
        picked = [rows[index] for index in drawing]
        self.drawing = drawing
        self._all = len(drawing) == len(rows)
        self._rows = mx.array(drawing, dtype=mx.int32) if drawing else None
        self._seeds = np.array([row.seed & (2**64 - 1) for row in picked], dtype=np.uint64)
        self._temperature = _column([max(row.temperature, _COLDEST) for row in picked])
        self._top_p = _optional([row.top_p if 0 < row.top_p < 1 else 1.0 for row in picked], off=1.0)
        self._min_p = _optional([row.min_p for row in picked], off=0.0)
        self._top_k = [row.top_k for row in picked] if any(row.top_k for row in picked) else None
        self._xtc = _Xtc(picked) if any(row.xtc_probability > 0 for row in picked) else None
        self._tone = Tone([row.tone for row in picked]) if any(row.tone for row in picked) else None

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
        logits = self._filtered(logits.astype(mx.float32), keys)
        tempered = logits / self._temperature
        if self._tone is not None:
            tempered = self._tone(logits, tempered, self._temperature)
        draw = mx.vmap(lambda row, key: mx.random.categorical(row, key=key))
        return draw(tempered, mx.array(keys)).astype(mx.int32)

    def _filtered(self, logits: mx.array, keys: np.ndarray) -> mx.array:
        bounds = []
        if self._top_p is not None:
            bounds.append(nucleus(logits, self._top_p))
        if self._min_p is not None:
            bounds.append(mx.max(logits, axis=-1, keepdims=True) + mx.log(self._min_p))
        if self._xtc is not None:
            logits, bounds = self._xtc(_above(logits, bounds), keys), []
        if self._top_k is not None:
            bounds.append(kth(logits, self._top_k))
        return _above(logits, bounds)


def _draws(row: Sampling) -> bool:
    # The likeliest token is all that top_k leaves, unless XTC has taken that one away before.
    return row.temperature > 0 and (row.top_k != 1 or row.xtc_probability > 0)


class _Xtc:
    """Excludes the top choices of the rows that ask for it: all likely tokens but the least likely of them."""

    def __init__(self, rows: Sequence[Sampling]) -> None:
        self._asking = [index for index, row in enumerate(rows) if row.xtc_probability > 0]
        asking = [rows[index] for index in self._asking]
        self._rows = mx.array(self._asking, dtype=mx.int32)
        self._chance = np.array([row.xtc_probability for row in asking])
        self._threshold = _column([row.xtc_threshold for row in asking])
        exempt = [(index, token) for index, row in enumerate(asking) for token in row.xtc_exempt]
        self._exempt = [mx.array(list(part), dtype=mx.int32) for part in zip(*exempt, strict=True)] if exempt else None

    def __call__(self, logits: mx.array, keys: np.ndarray) -> mx.array:
        drawn = _uniform(keys[self._asking]) < self._chance
        if not drawn.any():
            return logits
        part = logits[self._rows]
        chosen = mx.array(drawn.astype(np.int32))[:, None] > 0
        excluded = (part > least_likely_above(part, self._threshold)) & chosen
        thinned = mx.where(excluded, -mx.inf, part)
        if self._exempt is not None:
            rows, tokens = self._exempt
            thinned[rows, tokens] = part[rows, tokens]
        # A new array object: the caller's own must not change.
        whole = mx.array(logits)
        whole[self._rows] = thinned
        return whole


def _above(logits: mx.array, bounds: Sequence[mx.array]) -> mx.array:
    if not bounds:
        return logits
    least = bounds[0]
    for bound in bounds[1:]:
        least = mx.maximum(least, bound)
    return mx.where(logits >= least, logits, -mx.inf)


def _uniform(keys: np.ndarray) -> np.ndarray:
    """One number in [0, 1) a row from its draw's key, independent of the one that `categorical` makes from it."""
    words = keys.astype(np.uint64)
    seeds = (words[:, 0] << np.uint64(32)) | words[:, 1]
    mixed = draw_keys(seeds, np.full(len(seeds), _XTC_DRAW, dtype=np.uint64)).astype(np.uint64)
    return ((mixed[:, 0] << np.uint64(21)) | (mixed[:, 1] >> np.uint64(11))) / 2.0**53


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
