from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.clock import FakeClock
from actors.gpu_lease.lease import Holding, Lease, key_of
from actors.gpu_lease.messages import Acquire, Contention, Grant, LeaseClass, Withdraw
from actors.gpu_lease.process import Process

WEIGHTS: dict[LeaseClass, float] = {"interactive": 8, "transcription": 4, "embeddings": 2, "background": 1}
CLASSES = tuple(WEIGHTS)
SLICE_S = 0.1


def ask(name: str, lease_class: LeaseClass = "interactive", attempt: int = 1) -> Acquire:
    return Acquire(name, lease_class, pid=sum(name.encode()), started=1.0, attempt=attempt)


def fresh(suspect: Holding | None = None, epoch: int = 1) -> Lease:
    return Lease(epoch, WEIGHTS, SLICE_S, suspect)


def granted(lease: Lease, now: float) -> Grant:
    holding = lease.grant_next(now)
    assert holding is not None
    return holding.grant


def test_an_idle_lease_is_granted_at_once() -> None:
    lease = fresh()
    assert lease.ask(ask("a"), 0.0)
    assert granted(lease, 0.0) == Grant("a", 1, 1)
    assert lease.grant_next(0.0) is None
    assert lease.contention(Grant("a", 1, 1), 100.0) is None


def test_a_waiter_is_announced_with_what_is_left_of_the_slice() -> None:
    lease = fresh()
    lease.ask(ask("a"), 0.0)
    grant = granted(lease, 0.0)
    lease.ask(ask("b"), 0.0625)
    assert lease.contention(grant, 0.0625) == Contention("waiter", cast(float, pytest.approx(0.0375)))
    assert lease.contention(grant, 5.0) == Contention("waiter", 0.0)


def test_a_stale_grant_is_void_and_cannot_be_given_back_twice() -> None:
    lease = fresh()
    lease.ask(ask("a"), 0.0)
    first = granted(lease, 0.0)
    assert lease.yield_(first, 0.0, 0.0) == ask("a")
    second = granted(lease, 0.0)
    assert lease.contention(first, 0.0) == Contention("void")
    assert not lease.release(first, 0.0, 0.0)
    assert lease.yield_(first, 0.0, 0.0) is None
    assert lease.holding is not None and lease.holding.grant == second


def test_an_hour_alone_is_not_paid_back() -> None:
    lease = fresh()
    lease.ask(ask("chat"), 0.0)
    grant = granted(lease, 0.0)
    lease.ask(ask("train", "background"), 3600.0)
    lease.yield_(grant, 3600.0, 3600.0)
    assert granted(lease, 3600.0).holder == "train"
    lease.yield_(Grant("train", 1, 2), 0.1, 3600.1)
    assert granted(lease, 3600.1).holder == "chat"


def test_a_long_step_is_charged_for_what_it_took() -> None:
    lease, now = fresh(), 0.0
    lease.ask(ask("train", "background"), now)
    grant = granted(lease, now)
    lease.ask(ask("chat"), now)
    now += 2.0
    lease.yield_(grant, 2.0, now)
    turns = 0
    while (grant := granted(lease, now)).holder == "chat":
        now += SLICE_S
        lease.yield_(grant, SLICE_S, now)
        turns += 1
    assert turns == 160


def test_what_a_class_owes_is_paid_off_while_another_works_alone() -> None:
    lease = fresh()
    lease.ask(ask("train", "background"), 0.0)
    grant = granted(lease, 0.0)
    lease.ask(ask("chat"), 0.0)
    lease.release(grant, 2.0, 2.0)
    grant = granted(lease, 2.0)
    lease.ask(ask("train", "background", attempt=2), 3600.0)
    assert lease.yield_(grant, 3598.0, 3600.0) is not None
    assert granted(lease, 3600.0).holder == "train"


def test_within_a_class_the_first_comer_goes_first() -> None:
    lease = fresh()
    for name in ("a", "b", "c"):
        lease.ask(ask(name), 0.0)
    order: list[str] = []
    for _ in range(6):
        grant = granted(lease, 0.0)
        order.append(grant.holder)
        lease.yield_(grant, 0.0, 0.0)
    assert order == ["a", "b", "c", "a", "b", "c"]


def test_a_dead_holder_leaves_the_lease_to_the_next() -> None:
    lease = fresh()
    lease.ask(ask("a"), 0.0)
    grant = granted(lease, 0.0)
    lease.ask(ask("b"), 0.0)
    lease.ask(ask("c"), 0.0)
    assert lease.died(key_of(ask("b")).process, 1.0) == [key_of(ask("b"))]
    assert lease.died(key_of(ask("a")).process, 1.0) == []
    assert lease.contention(grant, 1.0) == Contention("void")
    assert granted(lease, 1.0).holder == "c"
    assert lease.deaths == 1
    assert lease.processes() == {key_of(ask("c")).process}


def test_a_newer_request_replaces_an_older_one_and_not_the_other_way_round() -> None:
    lease = fresh()
    lease.ask(ask("a", attempt=2), 0.0)
    assert not lease.ask(ask("a", attempt=1), 0.0)
    granted(lease, 0.0)
    assert not lease.ask(ask("a", attempt=2), 0.0), "a message that arrives twice ends no grant"
    assert lease.ask(ask("a", attempt=3), 0.0)
    assert lease.holding is None
    assert granted(lease, 0.0).token == 2


def test_withdrawing_ends_a_request_or_its_grant_but_no_newer_one() -> None:
    lease = fresh()
    request = ask("a", attempt=5)
    process = key_of(request).process
    lease.ask(request, 0.0)
    lease.withdraw(Withdraw("a", process.pid, process.started, 4), 0.0)
    assert lease.knows(key_of(request))
    granted(lease, 0.0)
    lease.withdraw(Withdraw("a", process.pid, process.started, 5), 0.0)
    assert lease.holding is None
    assert not lease.knows(key_of(request))


SUSPECT = Holding(Grant("old", 1, 9), ask("old", attempt=3))


def recovering() -> Lease:
    lease = fresh(SUSPECT, epoch=2)
    lease.ask(ask("b"), 0.0)
    assert lease.grant_next(0.0) is None
    return lease


def test_a_new_epoch_grants_when_the_old_holder_asks_anew() -> None:
    lease = recovering()
    assert not lease.ask(ask("old", attempt=3), 0.0), "the very request that the old epoch had granted"
    assert lease.grant_next(0.0) is None
    assert lease.ask(ask("old", attempt=4), 0.0)
    assert granted(lease, 0.0) == Grant("b", 2, 1)


def test_a_new_epoch_grants_when_the_old_grant_comes_back() -> None:
    for give_back in (Lease.release, Lease.yield_):
        lease = recovering()
        give_back(lease, Grant("old", 1, 8), 0.0, 0.0)
        assert lease.grant_next(0.0) is None
        assert not give_back(lease, Grant("old", 1, 9), 0.0, 0.0)
        assert granted(lease, 0.0).holder == "b"


def test_a_new_epoch_grants_when_the_old_holder_is_dead() -> None:
    lease = recovering()
    lease.died(Process(1, 1.0), 0.0)
    assert lease.grant_next(0.0) is None
    lease.died(SUSPECT.key.process, 0.0)
    assert granted(lease, 0.0).holder == "b"


def test_statistics_count_waits_grants_and_work() -> None:
    lease = fresh()
    lease.ask(ask("a"), 0.0)
    lease.ask(ask("b"), 0.0)
    grant = granted(lease, 1.0)
    assert lease.held_s(3.0) == 2.0
    lease.release(grant, 1.5, 3.0)
    state = lease.statistics(4.0)["interactive"]
    assert (state.waiting, state.grants, state.wait_s, state.oldest_wait_s, state.work_s) == (1, 1, 1.0, 4.0, 1.5)
    assert lease.held_s(4.0) == 0.0


@dataclass
class Actor:
    """One holder as it sees itself; `runs` is the truth the lease cannot see."""

    request: Acquire
    grant: Grant | None = None
    runs: bool = False


class Company(RuleBasedStateMachine):
    """Holders that ask, work, give back, vanish and lose answers, and a lease that dies and comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.lease = fresh()
        self.attempt = 0
        self.pid = 100
        self.actors = [self.newcomer(index) for index in range(5)]

    def newcomer(self, index: int) -> Actor:
        self.pid += 1
        return Actor(Acquire(f"h{index}", CLASSES[index % len(CLASSES)], self.pid, 1.0, 0))

    def ask_anew(self, actor: Actor) -> None:
        self.attempt += 1
        old = actor.request
        actor.request = Acquire(old.holder, old.lease_class, old.pid, old.started, self.attempt)
        actor.runs, actor.grant = False, None
        assert self.lease.ask(actor.request, self.clock.now())

    def settle(self, lost: bool = False) -> None:
        """Grant as the actor would; a lost answer never reaches the holder."""
        holding = self.lease.grant_next(self.clock.now())
        if holding is not None and not lost:
            actor = next(actor for actor in self.actors if actor.request == holding.request)
            actor.grant, actor.runs = holding.grant, True

    @rule(index=st.integers(0, 4), lost=st.booleans())
    def a_holder_asks(self, index: int, lost: bool) -> None:
        self.ask_anew(self.actors[index])
        self.settle(lost)

    @rule(seconds=st.floats(0.0, 3.0))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.settle()

    @rule(index=st.integers(0, 4), worked_s=st.floats(-1.0, 5.0), stays=st.booleans(), lost=st.booleans())
    def a_holder_gives_back(self, index: int, worked_s: float, stays: bool, lost: bool) -> None:
        actor = self.actors[index]
        if actor.grant is None:
            return
        grant, actor.grant, actor.runs = actor.grant, None, False
        if not stays:
            self.lease.release(grant, worked_s, self.clock.now())
        elif self.lease.yield_(grant, worked_s, self.clock.now()) is None:
            self.ask_anew(actor)
        self.settle(lost)

    @rule(index=st.integers(0, 4))
    def a_request_arrives_twice(self, index: int) -> None:
        actor = self.actors[index]
        if actor.runs:
            assert not self.lease.ask(actor.request, self.clock.now())
        self.settle()

    @rule(index=st.integers(0, 4))
    def a_holder_withdraws(self, index: int) -> None:
        actor = self.actors[index]
        actor.grant, actor.runs = None, False
        request = actor.request
        self.lease.withdraw(Withdraw(request.holder, request.pid, request.started, request.attempt), self.clock.now())
        self.settle()

    @rule(index=st.integers(0, 4))
    def a_holder_dies(self, index: int) -> None:
        process = key_of(self.actors[index].request).process
        self.actors[index] = self.newcomer(index)
        self.lease.died(process, self.clock.now())
        self.settle()

    @rule()
    def the_lease_dies(self) -> None:
        self.lease = fresh(self.lease.holding or self.lease.suspect, self.lease.epoch + 1)
        self.settle()

    @precondition(lambda self: self.lease.suspect is None)
    @rule(index=st.integers(0, 4))
    def everybody_who_waits_gets_a_turn(self, index: int) -> None:
        self.ask_anew(self.actors[index])
        wanted = self.actors[index].request
        self.settle()
        for _ in range(2000):
            holding = self.lease.holding
            assert holding is not None, "somebody waits and nobody holds"
            if holding.request == wanted:
                return
            actor = next(actor for actor in self.actors if key_of(actor.request) == holding.key)
            self.clock.advance(SLICE_S)
            actor.grant, actor.runs = None, False
            assert self.lease.yield_(holding.grant, SLICE_S, self.clock.now()) is not None
            self.settle()
        raise AssertionError("starved")

    @invariant()
    def nobody_runs_beside_another(self) -> None:
        assert sum(actor.runs for actor in self.actors) <= 1

    @invariant()
    def who_runs_is_known(self) -> None:
        known = [holding.request for holding in (self.lease.holding, self.lease.suspect) if holding is not None]
        assert all(actor.request in known for actor in self.actors if actor.runs)

    @invariant()
    def nobody_waits_beside_a_free_lease(self) -> None:
        if self.lease.holding is None and self.lease.suspect is None:
            assert all(state.waiting == 0 for state in self.lease.statistics(self.clock.now()).values())


Company.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_company = Company.TestCase
