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
from actors.prompt_cache.messages import Entry, Lookup, Publish, Reconcile, Unpin

Tokens = tuple[int, ...]

BUDGET = 40
MINIMUM = 2
NAMESPACES = ("base", "adapted")


@dataclass(eq=False)
class Known:
    name: EntryId
    namespace: str
    tokens: Tokens
    size: int
    trimmable: bool
    pins: dict[str, float] = field(default_factory=dict)
    superseded: bool = False

    def usable(self, prompt: Tokens) -> int:
        common = 0
        while common < min(len(self.tokens), len(prompt)) and self.tokens[common] == prompt[common]:
            common += 1
        usable = min(common, len(prompt) - 1)
        return usable if self.trimmable or usable == len(self.tokens) else 0

    def covers(self, tokens: Tokens) -> bool:
        return self.tokens[: len(tokens)] == tokens


class Naive:
    """`known` is in order of use, least recent first. One live scheduler a namespace."""

    def __init__(self) -> None:
        self.known: list[Known] = []
        self.sessions: dict[tuple[str, str], Known] = {}
        self.owed: dict[str, set[EntryId]] = {namespace: set() for namespace in NAMESPACES}

    def stored(self, namespace: str) -> list[Known]:
        return [known for known in self.known if known.namespace == namespace and not known.superseded]

    def use(self, known: Known) -> None:
        self.known.remove(known)
        self.known.append(known)

    def forget(self, known: Known, *, owe: bool) -> None:
        self.known.remove(known)
        self.sessions = {key: value for key, value in self.sessions.items() if value is not known}
        if owe:
            self.owed[known.namespace].add(known.name)

    def lookup(
        self, namespace: str, request: str, prompt: Tokens, session: str | None, now: float
    ) -> tuple[EntryId | None, int]:
        ranked = [(known.usable(prompt), rank, known) for rank, known in enumerate(self.known)]
        ranked = [candidate for candidate in ranked if candidate[2] in self.stored(namespace)]
        length, _, best = max(ranked, key=lambda candidate: candidate[:2], default=(0, 0, None))
        if best is None or length < MINIMUM:
            return None, 0
        best.pins[request] = now
        self.use(best)
        if session is not None:
            self.sessions.setdefault((namespace, session), best)
        return best.name, length

    def publish(self, new: Known, session: str | None) -> None:
        if new.name in self.owed[new.namespace]:
            return
        stored = self.stored(new.namespace)
        again = next((known for known in self.known if known.name == new.name), None)
        standing = again or next((known for known in reversed(stored) if self.makes_needless(known, new)), None)
        if standing is not None:
            self.use(standing)
            if session is not None and not standing.superseded:
                self.sessions[(new.namespace, session)] = standing
            if again is None:
                self.owed[new.namespace].add(new.name)
            return
        pinned = sum(known.size for known in self.known if known.pins)
        if len(new.tokens) < MINIMUM or new.size > BUDGET - pinned:
            self.owed[new.namespace].add(new.name)
            return
        for old in stored:
            if old.tokens == new.tokens or (new.trimmable and new.covers(old.tokens)):
                self.sessions = {key: new if value is old else value for key, value in self.sessions.items()}
                old.superseded = True
        self.known.append(new)
        if session is not None:
            self.sessions[(new.namespace, session)] = new
        self.sweep()
        while sum(known.size for known in self.known) > BUDGET:
            movable = [known for known in self.known if not known.pins and known is not new]
            loose = [known for known in movable if known not in self.sessions.values()]
            self.forget((loose or movable)[0], owe=True)

    def makes_needless(self, old: Known, new: Known) -> bool:
        if old.tokens == new.tokens:
            if old.trimmable != new.trimmable:
                return old.trimmable
            return bool(old.pins)
        return old.trimmable and old.covers(new.tokens)

    def sweep(self) -> None:
        for known in [known for known in self.known if known.superseded and not known.pins]:
            self.forget(known, owe=True)


sequences = st.lists(st.integers(0, 1), min_size=1, max_size=6).map(tuple)
namespaces = st.sampled_from(NAMESPACES)
requests = st.sampled_from(["r1", "r2", "r3"])
sessions = st.sampled_from([None, None, "s1", "s2"])


class PromptCacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.index = PrefixIndex(BUDGET, MINIMUM, self.clock)
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
        return Known(entry.entry, namespace, tuple(array("I", entry.tokens)), entry.size, entry.trimmable)

    @rule(namespace=namespaces, tokens=sequences, size=st.integers(0, 20), trimmable=st.booleans(), session=sessions)
    def publish_new(self, namespace: str, tokens: Tokens, size: int, trimmable: bool, session: str | None) -> None:
        name = EntryId(f"entry{next(self.numbers)}")
        self.publish(namespace, Entry(name, array("I", tokens).tobytes(), size, trimmable, session))

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def publish_again(self, data: st.DataObject) -> None:
        namespace = data.draw(st.sampled_from([name for name, held in self.held.items() if held]))
        self.publish(namespace, data.draw(st.sampled_from(list(self.held[namespace].values()))))

    @rule(namespace=namespaces, request=requests, prompt=sequences, session=sessions)
    def lookup(self, namespace: str, request: str, prompt: Tokens, session: str | None) -> None:
        message = Lookup(
            RequestId(request), namespace, self.scheduler[namespace], array("I", prompt).tobytes(), session
        )
        self.spoke.add(self.scheduler[namespace])
        expected = self.naive.lookup(namespace, request, prompt, session, self.clock.now())
        assert self.index.lookup(message) == expected

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

    @rule(seconds=st.sampled_from([PIN_LEASE_S / 2, PIN_LEASE_S]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
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

    @invariant()
    def every_tensor_is_either_known_or_owed(self) -> None:
        for namespace, held in self.held.items():
            known = {known.name for known in self.naive.known if known.namespace == namespace}
            assert known | self.naive.owed[namespace] == set(held)


TestPromptCacheMachine = PromptCacheMachine.TestCase
TestPromptCacheMachine.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)
