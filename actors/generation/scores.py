"""Log-probabilities of the picked tokens, for the rows that ask for them. Vectorized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from actors.generation.messages import Score

_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Pending:
    """Scores of one step on the device, not evaluated."""

    chosen: mx.array
    """Of the picked tokens, [rows that asked]."""
    tokens: mx.array | None
    """The likeliest tokens, best first, [rows that asked, most asked for]."""
    values: mx.array | None
    """Their log-probabilities, same shape."""

    @property
    def arrays(self) -> list[mx.array]:
        return [array for array in (self.chosen, self.tokens, self.values) if array is not None]


class Scores:
    """The rows of one batch that ask; made anew when a row joins or leaves.

    Args:
        wanted: for each row how many of the likeliest tokens it wants beside its own; None wants nothing.
        stream: where to compute them; belongs to the engine thread.
    """

    def __init__(self, wanted: Sequence[int | None], stream: mx.Stream) -> None:
        self._stream = stream
        self._asking = [index for index, count in enumerate(wanted) if count is not None]
        self._counts = [wanted[index] or 0 for index in self._asking]
        self._most = max(self._counts, default=0)
        self._rows = mx.array(self._asking, dtype=mx.int32) if self._asking else None

    def __call__(self, logits: mx.array, tokens: mx.array) -> Pending | None:
        """Scores of `tokens` [rows] under `logits` [rows, vocabulary]; None when no row asks.

        They are nobody's input, so they are computed on a stream of their own, beside the next step.
        """
        if self._rows is None:
            return None
        with mx.stream(self._stream):
            part = (logits if len(self._asking) == len(logits) else logits[self._rows]).astype(mx.float32)
            norm = mx.logsumexp(part, axis=-1, keepdims=True)
            chosen = mx.take_along_axis(part, tokens[self._rows][:, None], axis=-1) - norm
            if not self._most:
                return Pending(chosen[:, 0], None, None)
            most = min(self._most, part.shape[-1])
            best = _likeliest(part, most)
            values = mx.take_along_axis(part, best, axis=-1)
            order = mx.argsort(-values, axis=-1)
            values = mx.take_along_axis(values, order, axis=-1) - norm
            return Pending(chosen[:, 0], mx.take_along_axis(best, order, axis=-1), values)

    def read(self, pending: Pending) -> dict[int, Score]:
        """By index of the row in the batch. Waits for the device."""
        chosen: list[float] = pending.chosen.tolist()  # type: ignore[assignment]
        if pending.tokens is None or pending.values is None:
            return {index: Score(value) for index, value in zip(self._asking, chosen, strict=True)}
        tokens: list[list[int]] = pending.tokens.tolist()  # type: ignore[assignment]
        values: list[list[float]] = pending.values.tolist()  # type: ignore[assignment]
        return {
            index: Score(chosen[at], tuple(zip(tokens[at][:count], values[at][:count], strict=True)))
            for at, (index, count) in enumerate(zip(self._asking, self._counts, strict=True))
        }


def _likeliest(logits: mx.array, count: int) -> mx.array:
    """Ids of each row's `count` largest logits, in no order. [rows, count]

    They lie in the blocks with the `count` largest maxima, and blocks are few: a partition of everything is slow.
    """
    rows, vocabulary = logits.shape
    if vocabulary % _BLOCK or vocabulary // _BLOCK < count:
        return mx.argpartition(-logits, count - 1, axis=-1)[:, :count]
    blocks = logits.reshape(rows, -1, _BLOCK)
    chosen = mx.argpartition(-mx.max(blocks, axis=-1), count - 1, axis=-1)[:, :count]
    found = mx.take_along_axis(blocks, chosen[:, :, None], axis=1).reshape(rows, -1)
    within = mx.argpartition(-found, count - 1, axis=-1)[:, :count]
    return mx.take_along_axis(chosen, within // _BLOCK, axis=-1) * _BLOCK + within % _BLOCK
