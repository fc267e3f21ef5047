"""The index against a naive model: a list of entries, every question answered by looking at all of them."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.clock import FakeClock
from actors.ids import EntryId, Incarnation, RequestId
from actors.prompt_cache.index import PIN_LEASE_S, PrefixIndex
from actors.prompt_cache.messages import Discard, Entry, Lookup, Publish, Reconcile, Sweep, Unpin

Tokens = tuple[int, ...]

BUDGET = 40
MINIMUM = 2
IDLE_S = 300.0
NAMESPACES = ("base", "adapted")


@dataclass(eq=False)
class Known:
    name: EntryId
    namespace: str
    tokens: Tokens
    size: int
    trimmable: bool
    boundaries: Tokens = ()
    partition: str = ""
    used_at: float = 0.0
    pins: dict[str, float] = field(default_factory=dict)
    superseded: bool = False

    def usable(self, prompt: Tokens) -> int:
        common = 0
        while common < min(len(self.tokens), len(prompt)) and self.tokens[common] == prompt[common]:
            common += 1
        usable = min(common, len(prompt) - 1)
        if self.trimmable:
            return usable
        return max(cut for cut in (0, *self.boundaries, len(self.tokens)) if cut <= usable)

    def covers(self, tokens: Tokens) -> bool:
        return self.tokens[: len(tokens)] == tokens


class Naive:
    """`known` is in order of use, least recent first. One live scheduler a namespace."""

    def __init__(self) -> None:
        self.known: list[Known] = []
        self.now = 0.0
        self.sessions: dict[tuple[str, str, str], Known] = {}
        self.session_hits = self.session_misses = 0
        self.owed: dict[str, set[EntryId]] = {namespace: set() for namespace in NAMESPACES}

    def stored(self, namespace: str, partition: str) -> list[Known]:
        place = (namespace, partition)
        return [known for known in self.known if (known.namespace, known.partition) == place and not known.superseded]

    def use(self, known: Known) -> None:
        known.used_at = self.now
        self.known.remove(known)
        self.known.append(known)

    def forget(self, known: Known, *, owe: bool) -> None:
        self.known.remove(known)
        self.sessions = {key: value for key, value in self.sessions.items() if value is not known}
        if owe:
            self.owed[known.namespace].add(known.name)

    def lookup(
        self, namespace: str, partition: str, request: str, prompt: Tokens, session: str | None
    ) -> tuple[EntryId | None, int]:
        ranked = [(known.usable(prompt), rank, known) for rank, known in enumerate(self.known)]
        ranked = [candidate for candidate in ranked if candidate[2] in self.stored(namespace, partition)]
        length, _, best = max(ranked, key=lambda candidate: candidate[:2], default=(0, 0, None))
        if session is not None:
            own = self.sessions.get((namespace, partition, session))
            direct = own is not None and own is best and length == len(own.tokens)
            self.session_hits += direct
            self.session_misses += not direct
        if best is None or length < MINIMUM:
            return None, 0
        best.pins[request] = self.now
        self.use(best)
        if session is not None:
            self.sessions.setdefault((namespace, partition, session), best)
        return best.name, length

    def publish(self, new: Known, session: str | None) -> None:
        if new.name in self.owed[new.namespace]:
            return
        stored = self.stored(new.namespace, new.partition)
        place = (new.namespace, new.partition)
        again = next((known for known in self.known if known.name == new.name), None)
        standing = again or next((known for known in reversed(stored) if self.makes_needless(known, new)), None)
        if standing is not None:
            self.use(standing)
            if session is not None and not standing.superseded:
                self.sessions[(*place, session)] = standing
            if again is None:
                self.owed[new.namespace].add(new.name)
            return
        pinned = sum(known.size for known in self.known if known.pins)
        if len(new.tokens) < MINIMUM or new.size > BUDGET - pinned:
            self.owed[new.namespace].add(new.name)
            return
        for old in stored:
            at_boundary = not old.trimmable and len(old.tokens) in new.boundaries
            if old.tokens == new.tokens or (new.covers(old.tokens) and (new.trimmable or at_boundary)):
                self.sessions = {key: new if value is old else value for key, value in self.sessions.items()}
                old.superseded = True
        self.known.append(new)
        new.used_at = self.now
        if session is not None:
            self.sessions[(*place, session)] = new
        self.sweep()
        self.evict(
            [known for known in self.known if known is not new], sum(known.size for known in self.known) - BUDGET
        )

    def evict(self, candidates: list[Known], excess: int) -> None:
        movable = [known for known in candidates if not known.pins]
        movable.sort(key=lambda known: known in self.sessions.values())
        while excess > 0 and movable:
            excess -= movable[0].size
            self.forget(movable.pop(0), owe=True)

    def makes_needless(self, old: Known, new: Known) -> bool:
        if old.tokens == new.tokens:
            if old.trimmable != new.trimmable:
                return old.trimmable
            return bool(old.pins) or (not old.trimmable and set(old.boundaries) > set(new.boundaries))
        if not old.covers(new.tokens) or old.trimmable:
            return old.covers(new.tokens)
        return not new.trimmable and {*new.boundaries, len(new.tokens)} <= set(old.boundaries)

    def sweep(self) -> None:
        for known in [known for known in self.known if known.superseded and not known.pins]:
            self.forget(known, owe=True)


sequences = st.lists(st.integers(0, 1), min_size=1, max_size=6).map(tuple)
namespaces = st.sampled_from(NAMESPACES)
partitions = st.sampled_from(["", "", "salted"])
cuts = st.none() | st.frozensets(st.integers(1, 5))
"""Boundaries of an entry; None for one that can be cut anywhere."""
requests = st.sampled_from(["r1", "r2", "r3"])
sessions = st.sampled_from([None, None, "s1", "s2"])


class PromptCacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.index = PrefixIndex(BUDGET, MINIMUM, self.clock, IDLE_S)
        self.naive = Naive()
        self.numbers = count()
        self.scheduler = {namespace: self.fresh_scheduler() for namespace in NAMESPACES}
        self.held: dict[str, dict[EntryId, Entry]] = {namespace: {} for namespace in NAMESPACES}
        self.spoke: set[Incarnation] = set()

    def fresh_scheduler(self) -> Incarnation:
        return Incarnation(f"scheduler{next(self.numbers)}")

    def free(self, namespace: str, drop: tuple[EntryId, ...]) -> None:
        assert sorted(drop) == sorted(self.naive.owed[namespace])
        self.naive.owed[namespace].clear()
        for name in drop:
            del self.held[namespace][name]

    def publish(self, namespace: str, entry: Entry) -> None:
        self.held[namespace][entry.entry] = entry
        self.spoke.add(self.scheduler[namespace])
        self.naive.publish(self.known(namespace, entry), entry.session)
        self.free(namespace, self.index.publish(Publish(namespace, self.scheduler[namespace], entry)))

    def known(self, namespace: str, entry: Entry) -> Known:
        tokens = tuple(array("I", entry.tokens))
        return Known(entry.entry, namespace, tokens, entry.size, entry.trimmable, entry.boundaries, entry.partition)

    @rule(
        namespace=namespaces,
        partition=partitions,
        tokens=sequences,
        size=st.integers(0, 20),
        cuts=cuts,
        session=sessions,
    )
    def publish_new(
        self,
        namespace: str,
        partition: str,
        tokens: Tokens,
        size: int,
        cuts: frozenset[int] | None,
        session: str | None,
    ) -> None:
        name = EntryId(f"entry{next(self.numbers)}")
        boundaries = tuple(sorted(cut for cut in cuts or () if cut < len(tokens)))
        packed = array("I", tokens).tobytes()
        self.publish(namespace, Entry(name, packed, size, cuts is None, session, boundaries, partition))

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def publish_again(self, data: st.DataObject) -> None:
        namespace = data.draw(st.sampled_from([name for name, held in self.held.items() if held]))
        self.publish(namespace, data.draw(st.sampled_from(list(self.held[namespace].values()))))

    @rule(namespace=namespaces, partition=partitions, request=requests, prompt=sequences, session=sessions)
    def lookup(self, namespace: str, partition: str, request: str, prompt: Tokens, session: str | None) -> None:
        packed = array("I", prompt).tobytes()
        message = Lookup(RequestId(request), namespace, self.scheduler[namespace], packed, session, partition)
        self.spoke.add(self.scheduler[namespace])
        expected = self.naive.lookup(namespace, partition, request, prompt, session)
        assert self.index.lookup(message) == expected

    @rule(session=st.sampled_from(["s1", "s2"]))
    def close_session(self, session: str) -> None:
        self.index.close_session(session)
        self.naive.sessions = {key: value for key, value in self.naive.sessions.items() if key[2] != session}

    @rule(namespace=namespaces, pressure=st.sampled_from([0, 0, 1, 15, 1000]), demote=st.booleans())
    def sweep(self, namespace: str, pressure: int, demote: bool) -> None:
        scheduler, naive = self.scheduler[namespace], self.naive
        drop, idle = self.index.sweep(Sweep(scheduler, pressure))
        naive.evict([known for known in naive.known if known.namespace == namespace], pressure)
        self.free(namespace, drop)
        long_ago = self.clock.now() - IDLE_S
        unused = [known for known in naive.known if known.used_at <= long_ago and not known.pins]
        unused = [known for known in unused if known.namespace == namespace and not known.superseded]
        assert list(idle) == [known.name for known in unused]
        if demote:
            self.index.discard(Discard(scheduler, idle))
            for known in unused:
                naive.forget(known, owe=False)
                del self.held[namespace][known.name]

    @rule(data=st.data(), request=requests)
    def unpin(self, data: st.DataObject, request: str) -> None:
        names = [known.name for known in self.naive.known if known.pins]
        name = data.draw(st.sampled_from([*names, EntryId("unknown")]))
        self.index.unpin(Unpin(RequestId(request), name))
        for known in self.naive.known:
            if known.name == name:
                known.pins.pop(request, None)
        self.naive.sweep()

    @rule(namespace=namespaces)
    def reconcile(self, namespace: str) -> None:
        entries = tuple(self.held[namespace].values())
        self.spoke.add(self.scheduler[namespace])
        for known in [known for known in self.naive.known if known.namespace == namespace]:
            self.naive.forget(known, owe=False)
        for entry in entries:
            self.naive.publish(self.known(namespace, entry), entry.session)
        self.free(namespace, self.index.reconcile(Reconcile(namespace, self.scheduler[namespace], entries)))

    @rule(namespace=namespaces)
    def restart_scheduler(self, namespace: str) -> None:
        dead = self.scheduler[namespace]
        self.scheduler[namespace] = self.fresh_scheduler()
        self.held[namespace].clear()
        self.naive.owed[namespace].clear()
        for known in [known for known in self.naive.known if known.namespace == namespace]:
            self.naive.forget(known, owe=False)
        self.spoke.add(self.scheduler[namespace])
        assert self.index.reconcile(Reconcile(namespace, self.scheduler[namespace], ())) == ()
        late = Entry(EntryId(f"entry{next(self.numbers)}"), array("I", [0, 1]).tobytes(), 1, True)
        # A scheduler that never spoke is not known to have lived.
        if dead in self.spoke:
            assert self.index.publish(Publish(namespace, dead, late)) == (late.entry,)

    @rule(seconds=st.sampled_from([IDLE_S / 2, IDLE_S, PIN_LEASE_S / 2, PIN_LEASE_S]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.naive.now = self.clock.now()
        expired = 0
        for known in self.naive.known:
            for request, since in list(known.pins.items()):
                if self.clock.now() - since >= PIN_LEASE_S:
                    del known.pins[request]
                    expired += 1
        self.naive.sweep()
        assert self.index.expire_pins() == expired

    @invariant()
    def the_index_is_sound_and_counts_what_the_model_counts(self) -> None:
        assert self.index.check() == []
        now = self.index.statistics(0)
        assert now.entries == len(self.naive.known)
        assert now.size == sum(known.size for known in self.naive.known) <= BUDGET
        assert now.pinned == sum(bool(known.pins) for known in self.naive.known)
        assert now.sessions == len(self.naive.sessions)
        assert (now.session_hits, now.session_misses) == (self.naive.session_hits, self.naive.session_misses)

    @invariant()
    def every_tensor_is_either_known_or_owed(self) -> None:
        for namespace, held in self.held.items():
            known = {known.name for known in self.naive.known if known.namespace == namespace}
            assert known | self.naive.owed[namespace] == set(held)


TestPromptCacheMachine = PromptCacheMachine.TestCase
TestPromptCacheMachine.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)
