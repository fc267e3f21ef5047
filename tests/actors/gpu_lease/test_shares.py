from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gpu_lease.messages import LeaseClass
from actors.gpu_lease.shares import Shares

CLASSES: tuple[LeaseClass, ...] = ("interactive", "transcription", "embeddings", "background")

weights = st.fixed_dictionaries({name: st.floats(0.1, 20.0) for name in CLASSES})


@given(weights, st.lists(st.floats(0.001, 5.0), min_size=1, max_size=200))
def test_classes_that_always_wait_get_work_by_weight(weights: dict[LeaseClass, float], steps: list[float]) -> None:
    shares = Shares(weights)
    work: dict[LeaseClass, float] = dict.fromkeys(CLASSES, 0.0)
    for step in steps:
        name = shares.pick(CLASSES)
        shares.charge(name, step)
        work[name] += step
    longest = max(steps)
    for one in CLASSES:
        for other in CLASSES:
            apart = abs(work[one] / weights[one] - work[other] / weights[other])
            assert apart <= longest / weights[one] + longest / weights[other] + 1e-6


@given(weights, st.lists(st.tuples(st.floats(0.001, 5.0), st.sets(st.sampled_from(CLASSES))), max_size=200))
def test_a_waiting_class_is_served_after_bounded_work_of_the_others(
    weights: dict[LeaseClass, float], steps: list[tuple[float, set[LeaseClass]]]
) -> None:
    shares = Shares(weights)
    longest = max((step for step, _ in steps), default=0.0)
    waiting: set[LeaseClass] = set(CLASSES)
    waited: dict[LeaseClass, float] = dict.fromkeys(CLASSES, 0.0)
    for step, comers in steps:
        waiting |= comers
        name = shares.pick(waiting or CLASSES)
        waiting.discard(name)
        waited[name] = 0.0
        shares.charge(name, step)
        for other in waiting:
            waited[other] += step
            others = sum(weights.values()) - weights[other]
            assert waited[other] <= longest * (others / weights[other] + len(CLASSES) - 1) + 1e-6


def test_a_class_that_leaves_after_a_long_step_does_not_come_back_without_its_debt() -> None:
    shares = Shares({"interactive": 1.0, "background": 1.0})
    assert shares.pick({"background"}) == "background"
    shares.charge("background", 10.0)
    served: list[LeaseClass] = []
    for _ in range(10):
        served.append(shares.pick({"interactive", "background"}))
        shares.charge("interactive", 1.0)
    assert served == ["interactive"] * 10


def test_time_alone_is_free_and_pays_off_what_the_others_owe() -> None:
    shares = Shares({"interactive": 2.0, "background": 1.0})
    shares.charge("background", 10.0)
    shares.charge("interactive", 1.0)
    shares.pass_alone("interactive", 8.0)
    assert shares.debt("interactive") == 1.0
    assert shares.debt("background") == 6.0
    shares.pass_alone("interactive", 1000.0)
    assert shares.debt("background") == 0.0


def test_a_weight_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="above zero"):
        Shares({"interactive": 0.0})
