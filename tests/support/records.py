"""Small records for tests of the SSD tier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actors.spill.catalog import Catalog
from actors.spill.record import TOKEN, Draft, Tensor, hashes, seed

MODEL = "ab" * 32
SEED = seed(MODEL, "")


def pack(tokens: Sequence[int]) -> bytes:
    return np.asarray(tokens, dtype="<u4").tobytes()


def values(tokens: bytes, start: int, stop: int) -> np.ndarray:
    """What a segment holds for these tokens: numbers that only they and all tokens before them can give."""
    words = np.frombuffer(tokens, dtype="<u4")[:stop].astype(np.float64)
    sums = np.cumsum(words * np.arange(1, stop + 1))[start:stop]
    return sums.astype(np.float32).reshape(1, 1, stop - start, 1)


def segments(
    catalog: Catalog, tokens: bytes, block: int = 8, namespace: bytes = SEED, model: str = MODEL
) -> list[Draft]:
    """Drafts for what the catalog lacks of a prefix."""
    drafts: list[Draft] = []
    for gap in catalog.gaps(namespace, tokens):
        parent = gap.parent
        for start in range(gap.start, gap.stop, block):
            stop = min(start + block, gap.stop)
            drafts.append(segment(tokens, start, stop, parent, namespace, model))
            parent = drafts[-1].name
    return drafts


def segment(
    tokens: bytes, start: int, stop: int, parent: str | None, namespace: bytes = SEED, model: str = MODEL
) -> Draft:
    before, after = hashes(namespace, tokens, [start, stop])
    own = tokens[start * TOKEN : stop * TOKEN]
    tensor = Tensor("0.keys", "float32", values(tokens, start, stop))
    return Draft(model, "segment", start, stop, before, after, parent, own, (tensor,))


def state(tokens: bytes, parent: str | None, namespace: bytes = SEED, model: str = MODEL) -> Draft:
    length = len(tokens) // TOKEN
    after = next(hashes(namespace, tokens, [length]))
    tensor = Tensor("1.0", "float32", values(tokens, length - 1, length))
    return Draft(model, "state", length, length, after, after, parent, b"", (tensor,))
