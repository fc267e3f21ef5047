"""An index that is short to speak to, for the tests of what it decides."""

from __future__ import annotations

from array import array

from actors.clock import FakeClock
from actors.ids import EntryId, Incarnation, RequestId
from actors.prompt_cache.index import PrefixIndex
from actors.prompt_cache.messages import Entry, Lookup, Publish, Reconcile, Sweep, Unpin

MODEL = "model"
IDLE_S = 300.0
ONE, TWO = Incarnation("one"), Incarnation("two")


def entry(
    name: str,
    *tokens: int,
    size: int = 10,
    trimmable: bool = True,
    session: str | None = None,
    boundaries: tuple[int, ...] = (),
    partition: str = "",
) -> Entry:
    return Entry(EntryId(name), array("I", tokens).tobytes(), size, trimmable, session, boundaries, partition)


class Harness:
    """An index, short to speak to, checked after every message."""

    def __init__(self, max_bytes: int = 100, min_tokens: int = 1) -> None:
        self.clock = FakeClock()
        self.index = PrefixIndex(max_bytes, min_tokens, self.clock, IDLE_S)

    def publish(self, stored: Entry, scheduler: Incarnation = ONE, namespace: str = MODEL) -> list[str]:
        return self.checked(self.index.publish(Publish(namespace, scheduler, stored)))

    def reconcile(self, *entries: Entry, scheduler: Incarnation = ONE, namespace: str = MODEL) -> list[str]:
        return self.checked(self.index.reconcile(Reconcile(namespace, scheduler, entries)))

    def lookup(
        self,
        *tokens: int,
        request: str = "r",
        scheduler: Incarnation = ONE,
        namespace: str = MODEL,
        session: str | None = None,
        partition: str = "",
    ) -> tuple[str | None, int]:
        message = Lookup(RequestId(request), namespace, scheduler, array("I", tokens).tobytes(), session, partition)
        answer = self.index.lookup(message)
        self.checked(())
        return answer

    def unpin(self, name: str, request: str = "r") -> None:
        self.index.unpin(Unpin(RequestId(request), EntryId(name)))
        self.checked(())

    def use(self, *tokens: int, session: str | None = None) -> None:
        """Look up and unpin at once."""
        name, _ = self.lookup(*tokens, session=session)
        assert name is not None
        self.unpin(name)

    def sweep(self, pressure: int = 0, scheduler: Incarnation = ONE) -> tuple[list[str], list[str]]:
        drop, idle = self.index.sweep(Sweep(scheduler, pressure))
        return self.checked(drop), list(idle)

    def counts(self) -> tuple[int, int, int]:
        now = self.index.statistics(0)
        return now.session_hits, now.session_misses, now.prefix_scans

    def checked(self, drop: tuple[EntryId, ...]) -> list[str]:
        assert self.index.check() == []
        return list(drop)

    @property
    def size(self) -> int:
        return self.index.statistics(0).size
