"""Answers in the making that survive a crash.

Every so many tokens the row's caches are stored like any other prefix, and a note is written of what was generated so
far, under a key made of all that decides the answer. When the same request comes again after a crash, its tokens are
sent again at once and the row goes on from there: position and seed alone decide each draw, so the whole answer is
the one that would have been.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Container
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from actors.generation.messages import Submit
from actors.generation.row import Checkpoint, Row
from actors.ids import EntryId
from actors.spill.catalog import Catalog
from actors.spill.codec import Damaged, load
from actors.spill.record import Draft, Record, Tensor
from actors.spill.store import SUFFIX

log = logging.getLogger("troupe.generation.checkpoints")

_TENSOR = "tokens"


def key_of(model: str, request: Submit) -> bytes | None:
    """What an identical request has too; None for requests that are not resumed.

    Several answers to one prompt are not, nor are answers with log-probabilities (those of the past are not kept) and
    answers under a grammar.
    """
    if request.choices != 1 or request.top_logprobs is not None or request.constraint is not None:
        return None
    sampling = request.sampling
    if sampling.temperature == 0:
        sampling = replace(sampling, seed=0)  # nothing is drawn
    parts = (model, request.partition, request.prompt, request.max_tokens, sampling)
    return hashlib.sha256(msgspec.msgpack.encode(parts)).digest()


class Notes:
    """Which answers are in the making. Event loop only; `spilling.py` carries what is decided here to the writer.

    Args:
        model: as in `Record`.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._waiting: dict[bytes, tuple[EntryId, tuple[int, ...]]] = {}
        self._over: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, key: bytes, entry: EntryId, tokens: tuple[int, ...]) -> None:
        """A row has come so far; its caches are in an entry. Supersedes what was offered for the key before."""
        self._over.discard(key)
        self._waiting[key] = (entry, tokens)

    def forget(self, key: bytes) -> None:
        """The answer is complete."""
        self._waiting.pop(key, None)
        self._over.add(key)

    def ready(self, unwritten: Container[EntryId]) -> list[Draft]:
        """Notes whose caches have left the line of unwritten prefixes; they are not waiting any more."""
        found = [key for key, (entry, _) in self._waiting.items() if entry not in unwritten]
        return [self._draft(key, self._waiting.pop(key)[1]) for key in found]

    def ready_soon(self, unwritten: Container[EntryId]) -> bool:
        """Whether a note could be written now."""
        return any(entry not in unwritten for entry, _ in self._waiting.values())

    def stale(self, catalog: Catalog) -> list[str]:
        """Names of notes that are superseded or whose answers are complete."""
        names: list[str] = []
        for note in catalog.notes():
            newest = catalog.note(note.after)
            if note.after in self._over or (newest is not None and newest.name != note.name):
                names.append(note.name)
        # What is asked for now is gone afterwards, and nothing of these answers is on its way.
        self._over.clear()
        return names

    def _draft(self, key: bytes, tokens: tuple[int, ...]) -> Draft:
        tensor = Tensor(_TENSOR, "uint32", np.asarray(tokens, dtype="<u4"))
        return Draft(self._model, "note", len(tokens), len(tokens), b"", key, None, b"", (tensor,))


async def read_note(directory: Path, note: Record) -> list[int]:
    """The tokens in a note; none when it cannot be used."""
    path = directory / f"{note.name}{SUFFIX}"
    try:
        loaded = await asyncio.to_thread(load, path, note.model)
    except (Damaged, OSError) as error:
        log.warning("ssd cache: a checkpoint cannot be used, the answer begins anew: %s", error)
        return []
    return [int(token) for token in loaded.tensors[_TENSOR].data]


def equip(row: Row, key: bytes, every: int, saved: list[int]) -> Row:
    """A row that leaves checkpoints, and goes on from one if there is one.

    Args:
        row: not in line yet.
        key: of `key_of`.
        every: tokens between two checkpoints.
        saved: what an identical request had generated.
    """
    request, limit = row.request, row.request.max_tokens
    row.checkpoint = Checkpoint(key, every)
    if not saved or (limit is not None and len(saved) >= limit):
        return row
    row.tokens += saved
    row.request = replace(request, prompt=request.prompt + np.asarray(saved, dtype="<u4").tobytes())
    row.generated = row.draws = len(saved)
    row.replay = saved
    return row
