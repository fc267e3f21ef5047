"""A directory of records, as tests keep and read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.spill.catalog import Layout
from actors.spill.codec import load
from actors.spill.files import Files
from actors.spill.record import TOKEN
from actors.spill.store import Store
from tests.support.records import MODEL, SEED, segments, values

KV = Layout(segments=True, states=False)
PLENTY = 10**9


@contextmanager
def opened(folder: Path, max_bytes: int = PLENTY, files: Files | None = None) -> Iterator[Store]:
    store = Store(folder, max_bytes, files)
    store.open()
    try:
        yield store
    finally:
        store.close()


def keep(store: Store, tokens: bytes, block: int = 8) -> None:
    store.write(segments(store.catalog, tokens, block))


def usable(store: Store, tokens: bytes) -> int:
    """Length of the longest prefix; every byte of it is read and compared with what it must be."""
    prefix = store.catalog.longest(SEED, tokens, len(tokens) // TOKEN, KV)
    for piece in prefix.pieces:
        loaded = load(store.path(piece.record.name), MODEL)
        assert loaded.record == piece.record
        mine = loaded.tensors["0.keys"].data[:, :, : piece.stop - piece.record.start]
        assert mine.tobytes() == values(tokens, piece.record.start, piece.stop).tobytes()
    return prefix.length
