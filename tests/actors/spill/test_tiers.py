"""RAM and SSD together, against a plain list of what was published: nothing is computed twice without a reason."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.clock import FakeClock
from actors.generation.unwritten import Pending, Unwritten
from actors.ids import EntryId, Incarnation, RequestId
from actors.prompt_cache.index import PrefixIndex
from actors.prompt_cache.messages import Discard, Entry, Lookup, Publish, Sweep, Unpin
from actors.spill.catalog import Catalog, Layout
from actors.spill.codec import Damaged, load
from actors.spill.files import Files
from actors.spill.plan import Slot, Snapshot
from actors.spill.record import TOKEN, Draft, Tensor, common, seed
from actors.spill.store import NoRoom, Store
from tests.support.records import MODEL, pack, values

NAMESPACE = "base"
RAM, ORPHANED = 24, 40
"""Budgets in tokens: each counts as one byte of an entry."""
BLOCK = 4
IDLE_S = 300.0
inner_cuts = st.frozensets(st.integers(1, 11), max_size=3)
LAYOUTS = (Layout(True, False), Layout(True, True), Layout(False, True))


class Moody(Files):
    """A disk that can be full; it does not wait, for nothing pulls the plug here."""

    full = False

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        path.write_bytes(b"".join(pieces))

    def sync_folder(self, folder: Path) -> None:
        return None


@dataclass(frozen=True)
class History:
    """A prefix that was published once."""

    tokens: bytes
    partition: str
    cuts: tuple[int, ...] | None
    """Where it can be cut, its length included; None for anywhere."""

    def usable(self, prompt: bytes, partition: str) -> int:
        """Tokens of a prompt that need not be computed when one has it."""
        if partition != self.partition:
            return 0
        shared = common(self.tokens, prompt[:-TOKEN])
        return shared if self.cuts is None else max((cut for cut in self.cuts if cut <= shared), default=0)


def unpack(tokens: bytes) -> list[int]:
    return [int(token) for token in np.frombuffer(tokens, dtype="<u4")]


def filled(slot: Slot, tokens: bytes) -> Draft:
    """A record with arrays that only these tokens can give."""
    begin = slot.start if slot.kind == "segment" else slot.stop - 1
    return slot.filled([Tensor("0", "float32", values(tokens, begin, slot.stop))], "")


class TiersMachine(RuleBasedStateMachine):
    """A scheduler without arrays: publishes, gives up, writes behind, looks up, crashes."""

    @initialize(layout=st.sampled_from(LAYOUTS), budget=st.sampled_from([10**9, 10**9, 12_000]))
    def begin(self, layout: Layout, budget: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.layout, self.budget, self.disk = layout, budget, Moody()
        self.numbers = count()
        self.clock = FakeClock()
        self.published: set[History] = set()
        self.durable: dict[History, set[str]] = {}
        """What the disk owes, with the records that give it."""
        self.promised: set[History] = set()
        """Published in this life of the scheduler, and nothing has been lost since."""
        self.store = Store(Path(self.folder.name), budget, self.disk)
        self.store.open()
        self.be_born()

    def be_born(self) -> None:
        """A scheduler starts: its RAM is empty, the disk is as it is."""
        self.me = Incarnation(f"scheduler{next(self.numbers)}")
        self.index = PrefixIndex(RAM, 1, self.clock, IDLE_S)
        self.unwritten, self.dropped = Unwritten(ORPHANED), 0
        self.catalog = Catalog(self.store.catalog)
        self.shelf: dict[EntryId, History] = {}
        self.resident: set[EntryId] = set()
        """Entries that the manager has not given up."""
        self.promised.clear()

    @rule(
        tokens=st.lists(st.integers(0, 1), min_size=1, max_size=10),
        partition=st.sampled_from(["", "", "salted"]),
        inner=inner_cuts,
    )
    def begin_a_conversation(self, tokens: list[int], partition: str, inner: frozenset[int]) -> None:
        self.publish(tokens, partition, inner)

    @precondition(lambda self: self.published)
    @rule(data=st.data(), more=st.lists(st.integers(0, 1), min_size=1, max_size=4), inner=inner_cuts)
    def take_a_turn(self, data: st.DataObject, more: list[int], inner: frozenset[int]) -> None:
        before = data.draw(st.sampled_from(sorted(self.published, key=repr)))
        self.publish([*unpack(before.tokens), *more], before.partition, inner)

    def publish(self, tokens: list[int], partition: str, inner: frozenset[int]) -> None:
        name = EntryId(f"entry{next(self.numbers)}")
        inside = tuple(sorted(cut for cut in inner if cut < len(tokens))) if self.layout.states else ()
        history = History(pack(tokens), partition, (*inside, len(tokens)) if self.layout.states else None)
        entry = Entry(name, pack(tokens), len(tokens), not self.layout.states, None, inside, partition)
        self.shelf[name] = history
        self.resident.add(name)
        self.published.add(history)
        self.promised.add(history)
        snapshot = Snapshot(MODEL, seed(MODEL, partition), history.tokens, (*inside, len(tokens)))
        self.unwritten.add(Pending(entry, snapshot))
        self.give_up(self.index.publish(Publish(NAMESPACE, self.me, entry)))

    def give_up(self, names: Iterable[EntryId]) -> None:
        for name in names:
            self.resident.remove(name)
            kept, dropped = self.unwritten.release(name, self.layout)
            self.notice_drops()
            for gone in [*([] if kept else [name]), *(pending.entry.entry for pending in dropped)]:
                del self.shelf[gone]
        self.check_promises()

    @rule()
    def write_one(self) -> None:
        pending = self.unwritten.next(self.clock.now())
        if pending is not None:
            self.spill(pending)

    def spill(self, pending: Pending) -> None:
        """As `Spilling` does it, a record a message."""
        history, names = self.shelf[pending.entry.entry], set[str]()
        while slots := pending.snapshot.lacks(self.catalog, self.layout, BLOCK):
            try:
                written = self.store.write([filled(slots[0], history.tokens)])
            except OSError:
                self.unwritten.postpone(pending, self.clock.now(), 5.0, failed=True)
                return
            except NoRoom:
                self.promised.clear()
                if self.unwritten.lose(pending):
                    del self.shelf[pending.entry.entry]
                return
            self.lose(written.removed)
            for record in written.durable:
                self.catalog.add(record)
        if self.unwritten.done(pending):
            del self.shelf[pending.entry.entry]
        for cut in history.cuts or (len(history.tokens) // TOKEN,):
            prefix = self.catalog.longest(pending.snapshot.seed, history.tokens, cut, self.layout)
            assert prefix.length == cut
            names |= set(prefix.names)
        self.durable[history] = names

    def lose(self, names: Iterable[str]) -> None:
        gone = set(names)
        if gone:
            self.promised.clear()
        for name in gone:
            self.catalog.discard(name)
        self.durable = {history: needs for history, needs in self.durable.items() if not needs & gone}

    @rule(full=st.booleans())
    def fill_the_disk(self, full: bool) -> None:
        self.disk.full = full

    @rule(seconds=st.sampled_from([5.0, IDLE_S]), pressure=st.sampled_from([0, 0, 10]))
    def sweep(self, seconds: float, pressure: int) -> None:
        self.clock.advance(seconds)
        drop, idle = self.index.sweep(Sweep(self.me, pressure))
        self.give_up(drop)
        lacking = {pending.entry.entry for pending in self.unwritten}
        gone = tuple(name for name in idle if name not in lacking and self.shelf[name] in self.durable)
        self.index.discard(Discard(self.me, gone))
        self.give_up(gone)

    @rule()
    def crash(self) -> None:
        """The whole server: only what is on the disk counts from now on."""
        self.store.close()
        self.store = Store(Path(self.folder.name), self.budget, self.disk)
        self.store.open()
        self.be_born()

    @rule()
    def scheduler_dies(self) -> None:
        self.be_born()

    @precondition(lambda self: len(self.store.catalog) > 0)
    @rule(data=st.data())
    def flip_a_bit(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(record.name for record in self.store.catalog)))
        path = self.store.path(name)
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        # Nobody knows; those who need it find out.
        self.promised.clear()
        self.durable = {history: needs for history, needs in self.durable.items() if name not in needs}

    @rule(tokens=st.lists(st.integers(0, 1), min_size=2, max_size=13), partition=st.sampled_from(["", "salted"]))
    def ask(self, tokens: list[int], partition: str) -> None:
        prompt = pack(tokens)
        claims = [self.from_ram(prompt, partition), self.from_disk(prompt, partition)]
        held = [self.shelf[name] for name in self.resident]
        owed = max((history.usable(prompt, partition) for history in (*held, *self.durable)), default=0)
        known = max((history.usable(prompt, partition) for history in self.published), default=0)
        assert owed <= max(claims) <= known

    def from_ram(self, prompt: bytes, partition: str) -> int:
        request = RequestId(f"request{next(self.numbers)}")
        name, length = self.index.lookup(Lookup(request, NAMESPACE, self.me, prompt, None, partition))
        if name is None:
            return 0
        assert self.shelf[name].usable(prompt, partition) == length
        self.index.unpin(Unpin(request, name))
        return length

    def from_disk(self, prompt: bytes, partition: str) -> int:
        """What can be read; damaged records are set aside, and the rest is looked for again."""
        limit = len(prompt) // TOKEN - 1
        while True:
            prefix = self.catalog.longest(seed(MODEL, partition), prompt, limit, self.layout)
            broken = [name for name in prefix.names if not self.sound(name, prompt)]
            if not broken:
                return prefix.length
            for name in broken:
                self.store.set_aside(name, "a test")
            self.lose(broken)

    def sound(self, name: str, prompt: bytes) -> bool:
        with contextlib.suppress(Damaged):
            loaded = load(self.store.path(name), MODEL)
            record, data = loaded.record, loaded.tensors["0"].data
            if record.kind == "state":
                assert data.tobytes() == values(prompt, record.stop - 1, record.stop).tobytes()
                return True
            shared = common(record.tokens, prompt[record.start * TOKEN :])
            assert data[:, :, :shared].tobytes() == values(prompt, record.start, record.start + shared).tobytes()
            return True
        return False

    @rule()
    def flush(self) -> None:
        """Whatever was published in this life is on the disk after it, unless something is known to be lost."""
        self.disk.full = False
        self.unwritten.hurry()
        while (pending := self.unwritten.next(self.clock.now())) is not None:
            self.spill(pending)
        for history in self.promised:
            for cut in history.cuts or (len(history.tokens) // TOKEN,):
                own = seed(MODEL, history.partition)
                assert self.catalog.longest(own, history.tokens, cut, self.layout).length == cut

    def check_promises(self) -> None:
        """Whatever was given up is on the disk, in line for it, or stood for by what is."""
        held = [*self.shelf.values(), *self.durable]
        for history in self.promised:
            for cut in history.cuts or (len(history.tokens) // TOKEN,):
                prompt = history.tokens[: cut * TOKEN] + pack([2])
                assert any(other.usable(prompt, history.partition) == cut for other in held)

    def notice_drops(self) -> None:
        """The queue has lost something, and with it what it stood for."""
        if self.unwritten.counts().dropped > self.dropped:
            self.dropped = self.unwritten.counts().dropped
            self.promised.clear()

    @invariant()
    def what_is_needed_is_held(self) -> None:
        if not hasattr(self, "store"):
            return
        assert set(self.shelf) == self.resident | {pending.entry.entry for pending in self.unwritten}
        assert self.index.check() == []
        assert self.store.catalog.size <= self.budget
        assert sum(pending.entry.size for pending in self.unwritten if pending.orphaned) <= ORPHANED

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


TiersMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTiersMachine = TiersMachine.TestCase
