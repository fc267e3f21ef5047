"""One forward pass over prompt tokens: a chunk of one row, or the whole rest of several short ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from actors.generation import kv, marks
from actors.generation.row import Row

CLEAR_AFTER_TOKENS = 512
"""Passes this long leave large temporary buffers behind; they are returned to the system."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass did."""

    caches: list[Any]
    """With several rows: their merged caches, in order. With one: the row's own."""
    padded_tokens: int
    """Rows times the longest part."""
    seconds: float
    """How long it took."""


class Prefill:
    """Engine thread only.

    Args:
        model: an mlx-lm model.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def run(self, chunk: Sequence[tuple[Row, int]]) -> Pass:
        """Compute the next tokens of each row and move `computed` on. Blocks until the device is done.

        Args:
            chunk: rows and how many of their tokens to compute; several rows are computed to their last token but
                one, padded on the right.

        Raises:
            Exception: whatever the model raises; the rows' caches are then unusable.
        """
        started = time.monotonic()
        rows = [row for row, _ in chunk]
        longest = max(tokens for _, tokens in chunk)
        if len(chunk) == 1:
            row, tokens = chunk[0]
            caches = row.caches
            assert caches is not None
            self._forward([row.tokens[row.computed : row.computed + tokens]], caches)
        else:
            caches = self._joint(chunk)
        for row, tokens in chunk:
            row.computed += tokens
            marks.note(row, "prefill.chunk", started, tokens=tokens, rows=len(rows))
        if longest * len(chunk) >= CLEAR_AFTER_TOKENS:
            with marks.span(rows, "prefill.kv_maintenance"):
                mx.clear_cache()
        return Pass(caches, longest * len(chunk), time.monotonic() - started)

    def _joint(self, chunk: Sequence[tuple[Row, int]]) -> list[Any]:
        with marks.span([row for row, _ in chunk], "prefill.batch_setup", rows=len(chunk)):
            caches = kv.merge([row.caches or [] for row, _ in chunk])
        parts = [row.tokens[row.computed : row.computed + tokens] for row, tokens in chunk]
        with kv.ending(caches, [tokens for _, tokens in chunk]):
            self._forward(kv.padded(parts), caches)
        mx.eval(kv.arrays(caches))
        return caches

    def _forward(self, parts: list[list[int]], caches: list[Any]) -> None:
        # The logits stay unevaluated: nobody needs them, and lazily they cost nothing.
        self._model(mx.array(parts, dtype=mx.int32), cache=caches)
        mx.eval(kv.arrays(caches))
