"""What the engine asks of an embedding model, whatever its architecture."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from actors.embedding.pooling import Floats, position_weights
from actors.models.embedding_card import Pooling

PADDING = 0
"""Token in the places behind a text's end; nothing looks at it."""

Passes = Generator[int, None, Floats]
"""Yields after each forward pass how many tokens it computed, padding included; returns one pooled vector a row,
not yet of length 1, as (rows, dimensions). Nothing is in flight on the device between two passes, so the GPU may be
lent out. Closing it early frees what it holds."""


class Encoder(Protocol):
    """A loaded embedding model. Engine thread only."""

    cuttable: bool
    """Whether a pass may compute a part of a text."""

    def passes(self, rows: Sequence[Sequence[int]], chunk: int) -> Passes:
        """Compute texts together.

        Args:
            rows: token ids of each text; none is empty.
            chunk: tokens of each text that a pass computes at most, where a text can be cut.
        """
        ...


def padded(rows: Sequence[Sequence[int]]) -> mx.array:
    """Rows as (rows, longest), padded on the right."""
    tokens = np.full((len(rows), max(map(len, rows))), PADDING, dtype=np.int32)
    for place, row in zip(tokens, rows, strict=True):
        place[: len(row)] = row
    return mx.array(tokens)


def pooled(hidden: mx.array, weights: Floats) -> mx.array:
    """Weighted sum of (rows, positions, dimensions) over positions, in float32."""
    return (mx.array(weights)[:, None, :] @ hidden.astype(mx.float32))[:, 0]


class DecoderEncoder:
    """A causal mlx-lm model without its head. Long texts are computed in chunks over a KV cache."""

    cuttable = True

    def __init__(self, model: Any, pooling: Pooling) -> None:
        """`model` is mlx-lm's; its `model` gives the hidden states."""
        self.model = model
        self._pooling: Pooling = pooling

    def passes(self, rows: Sequence[Sequence[int]], chunk: int) -> Passes:
        from mlx_lm.models.cache import KVCache

        tokens = padded(rows)
        width = tokens.shape[1]
        # Padding stands behind every text, where a causal model does not see it.
        weights = position_weights([len(row) for row in rows], width, self._pooling)
        caches: list[Any] | None = [KVCache() for _ in self.model.layers] if width > chunk else None
        total: mx.array | None = None
        for start in range(0, width, chunk):
            part = tokens[:, start : start + chunk]
            share = pooled(self.model.model(part, caches), weights[:, start : start + chunk])
            total = share if total is None else total + share
            mx.eval(total, *([] if caches is None else [cache.state for cache in caches]))
            yield part.size
        return np.array(total)


class BidirectionalEncoder:
    """An encoder in which every token sees every other one, so a text is computed in one pass."""

    cuttable = False

    def __init__(self, model: Any, pooling: Pooling) -> None:
        """`model(tokens, mask)` gives the hidden states; the mask is None when no row is padded."""
        self.model = model
        self._pooling: Pooling = pooling

    def passes(self, rows: Sequence[Sequence[int]], chunk: int) -> Passes:
        tokens = padded(rows)
        width = tokens.shape[1]
        lengths = [len(row) for row in rows]
        mask = None if min(lengths) == width else mx.arange(width)[None, :] < mx.array(lengths)[:, None]
        total = pooled(self.model(tokens, mask), position_weights(lengths, width, self._pooling))
        mx.eval(total)
        yield tokens.size
        return np.array(total)
