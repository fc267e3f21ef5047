"""Which tokens may follow: Whisper's rules of text and timestamps, as bounds a row (pure) and as scores (MLX).

Ids are in order: text, then the end token, then the other special ones, then timestamps from `first_stamp` on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

_CHUNK_S = 30
_LATEST_START_S = 1.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may follow one row: nothing below `low`, no timestamp below `stamp_low`, nothing from `high` on."""

    low: int
    stamp_low: int
    high: int


class StampRules:
    """Bounds from what a row has said so far. Pure."""

    def __init__(self, end: int, first_stamp: int, vocabulary: int, positions: int, ordered: bool) -> None:
        """`positions` of the encoder make a window. `ordered`: timestamps never fall, as openai-whisper has it."""
        self._end = end
        self._first = first_stamp
        self._size = vocabulary
        self._latest = first_stamp + round(_LATEST_START_S / (_CHUNK_S / positions))
        self._ordered = ordered

    def bounds(self, said: Sequence[int]) -> Bounds:
        """`said`: the tokens of a row, without its prompt."""
        if not said:
            return Bounds(self._first, self._first, self._latest + 1)
        last = said[-1] >= self._first
        before = len(said) < 2 or said[-2] >= self._first
        low, high = 0, self._size
        if last and before:
            high = self._first  # a segment has begun: text is due
        elif last:
            low = self._end  # a segment has ended: another one begins, or all ends
        return Bounds(low, self._lowest(said, last and not before), high)

    def _lowest(self, said: Sequence[int], ended: bool) -> int:
        latest = next((token for token in reversed(said) if token >= self._first), None)
        if latest is None or not self._ordered:
            return self._first
        return latest if ended else latest + 1  # no segment is empty


class TokenRules:
    """The rules of one window, applied to scores.

    Args:
        tokenizer: mlx-whisper's, for the language and the task.
        vocabulary: scores a row.
        positions: of the encoder.
        stamps: whether timestamps are sought.
        ordered: see `StampRules`.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, positions: int, stamps: bool, ordered: bool) -> None:
        self.end: int = tokenizer.eot
        self._first: int = tokenizer.timestamp_begin
        self._stamps = StampRules(self.end, self._first, vocabulary, positions, ordered) if stamps else None
        never = _never(tokenizer)
        self._never = mx.array(_mask(vocabulary, never))
        self._never_first = mx.array(_mask(vocabulary, [*never, *tokenizer.encode(" "), self.end]))
        self._ids = mx.arange(vocabulary)

    def apply(self, scores: mx.array, said: Sequence[Sequence[int]]) -> mx.array:
        """Scores (rows, vocabulary) with -inf for what may not follow; `said` holds each row's tokens."""
        scores = scores + (self._never if said[0] else self._never_first)
        if self._stamps is None:
            return scores
        bounds = [self._stamps.bounds(row) for row in said]
        low, stamp_low, high = (
            mx.array([[getattr(row, name)] for row in bounds]) for name in ("low", "stamp_low", "high")
        )
        return _bounded(scores, self._ids, low, stamp_low, high, self._first)


def _bounded(
    scores: mx.array, ids: mx.array, low: mx.array, stamp_low: mx.array, high: mx.array, first: int
) -> mx.array:
    """Where timestamps together are likelier than any text token, only they may follow; unless text is due."""
    stamps = mx.logsumexp(scores[:, first:], axis=-1, keepdims=True)
    text = mx.max(scores[:, :first], axis=-1, keepdims=True)
    low = mx.where((stamps > text) & (high > first), mx.maximum(low, first), low)
    no_stamps = first - 1
    barred = (ids < low) | (ids >= high) | (ids == no_stamps) | ((ids >= first) & (ids < stamp_low))
    return mx.where(barred, -mx.inf, scores)


def _never(tokenizer: Any) -> list[int]:
    specials = (
        tokenizer.transcribe,
        tokenizer.translate,
        tokenizer.sot,
        tokenizer.sot_prev,
        tokenizer.sot_lm,
        tokenizer.no_speech,
    )
    return [*tokenizer.non_speech_tokens, *specials]


def _mask(size: int, tokens: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
    mask = np.zeros(size, dtype=np.float32)
    mask[list(tokens)] = -np.inf
    return mask
