from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import pytest

from actors.ids import EntryId, Incarnation, RequestId
from actors.prompt_cache.messages import (
    CacheStatistics,
    Discard,
    Entry,
    Lookup,
    Match,
    Publish,
    Published,
    Reconcile,
    Sweep,
    Swept,
    Unpin,
)

ENTRY = Entry(EntryId("entry-1"), b"\x01\x00\x00\x00\xff\xff\xff\xff", 4096, True, "session")
EVERY_MESSAGE = [
    ENTRY,
    Lookup(RequestId("r"), "model", Incarnation("s"), b"\x02\x00\x00\x00", None),
    Match(Incarnation("m"), ENTRY.entry, 1),
    Match(Incarnation("m"), None, 0),
    Unpin(RequestId("r"), ENTRY.entry),
    Publish("model", Incarnation("s"), ENTRY),
    Published(Incarnation("m"), (ENTRY.entry,)),
    Reconcile("model", Incarnation("s"), (ENTRY, ENTRY)),
    Entry(EntryId("entry-2"), b"\x01\x00\x00\x00" * 3, 1, False, None, (1, 2), "salt"),
    Sweep(Incarnation("s"), 5),
    Swept(Incarnation("m"), (ENTRY.entry,), ()),
    Discard(Incarnation("s"), (ENTRY.entry,)),
    CacheStatistics(*range(15)),
]


@pytest.mark.parametrize("message", EVERY_MESSAGE, ids=lambda message: type(message).__name__)
def test_messages_survive_the_way_to_another_process(message: object) -> None:
    assert pickle.loads(pickle.dumps(message)) == message


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        ENTRY.size = 1  # pyright: ignore[reportAttributeAccessIssue]
