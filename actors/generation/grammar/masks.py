"""Which tokens each row of a batch may pick, and its effect on the logits."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from actors.generation.grammar.tokens import WORD_BITS

ALL = np.int32(-1)
"""A word that allows its 32 tokens."""


class Masks:
    """Bits of a batch, one row each, used again every step. Engine thread only.

    Args:
        vocabulary: rows of the embedding matrix.
    """

    def __init__(self, vocabulary: int) -> None:
        self._words = (vocabulary + WORD_BITS - 1) // WORD_BITS
        self._bits = np.full((1, self._words), ALL, dtype=np.int32)

    def start(self, rows: int) -> np.ndarray:
        """The masks of a step, all tokens allowed. [rows, words], int32; valid until the next call."""
        if rows > len(self._bits):
            self._bits = np.empty((rows, self._words), dtype=np.int32)
        bits = self._bits[:rows]
        bits.fill(ALL)
        return bits


def apply(logits: mx.array, bits: np.ndarray) -> mx.array:
    """Logits with minus infinity where a bit is not set. Not evaluated; `bits` is copied and may change afterwards.

    Args:
        logits: [rows, vocabulary], any float type; it is kept.
        bits: [rows, words], int32; bits beyond the vocabulary mean nothing.
    """
    rows, vocabulary = logits.shape
    addends = _table(logits.dtype)[mx.array(bits.view(np.uint8))]
    return logits + addends.reshape(rows, -1)[:, :vocabulary]


_tables: dict[mx.Dtype, mx.array] = {}


def _table(dtype: mx.Dtype) -> mx.array:
    """What to add to eight logits, by the byte of their bits: a look-up is a quarter of the time of any arithmetic."""
    if dtype not in _tables:
        bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
        table = mx.array(np.where(bits, 0.0, -np.inf)).astype(dtype)
        mx.eval(table)
        _tables[dtype] = table
    return _tables[dtype]
