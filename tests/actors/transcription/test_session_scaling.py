from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.transcription.scaling import ByOpenSessions, Load, wanted

loads_of = st.lists(st.builds(Load, st.integers(0, 20).map(float), st.floats(0, 100), st.just(1.0)), min_size=1)


def load(sessions: float, started: float = 0.0, node: float = 1.0) -> Load:
    return Load(sessions, started, node)


def test_more_sessions_want_more_replicas_up_to_the_most() -> None:
    assert wanted([load(8)], 1, 8, (1, 3)) == 1
    assert wanted([load(9)], 1, 8, (1, 3)) == 2
    assert wanted([load(100)], 1, 8, (1, 3)) == 3


def test_idle_replicas_go_down_to_the_fewest() -> None:
    assert wanted([load(0), load(0, 1), load(0, 2)], 3, 8, (1, 3)) == 1
    assert wanted([load(0), load(0, 1), load(0, 2)], 3, 8, (2, 3)) == 2


def test_a_replica_with_sessions_keeps_those_before_it_too() -> None:
    assert wanted([load(0), load(1, 1), load(0, 2)], 3, 8, (1, 3)) == 2
    assert wanted([load(0), load(0, 1), load(1, 2)], 3, 8, (1, 3)) == 3


def test_where_it_cannot_be_told_who_would_be_stopped_nobody_is() -> None:
    assert wanted([load(1, 0, node=1), load(0, 1, node=2)], 2, 8, (1, 3)) == 2
    assert wanted([load(0, 0, node=1), load(0, 1, node=2)], 2, 8, (1, 3)) == 1
    assert wanted([load(1), None], 2, 8, (1, 3)) == 2
    assert wanted([load(1)], 2, 8, (1, 3)) == 2


@given(loads_of, st.integers(1, 8), st.integers(1, 4), st.integers(0, 4))
def test_whoever_is_stopped_has_no_sessions(loads: list[Load], target: int, low: int, more: int) -> None:
    """Serve stops the newest first."""
    number = wanted(loads, len(loads), target, (low, low + more))
    for stopped in sorted(loads, key=lambda one: -one.started)[: max(0, len(loads) - number)]:
        assert stopped.sessions == 0


@dataclass
class Point:
    value: float


@dataclass
class Context:
    raw_metrics: dict[str, dict[str, list[Point]]]
    running_replicas: list[str]
    target_num_replicas: int
    capacity_adjusted_min_replicas: int = 1
    capacity_adjusted_max_replicas: int = 3
    others: dict[str, Any] = field(default_factory=dict)


def test_the_newest_figures_of_the_running_replicas_count() -> None:
    metrics = {
        "sessions": {"a": [Point(0), Point(9)], "gone": [Point(50)]},
        "started": {"a": [Point(1)], "gone": [Point(0)]},
        "node": {"a": [Point(1)], "gone": [Point(1)]},
    }
    assert ByOpenSessions(target=8)(Context(metrics, ["a"], 1)) == (2, {})
    assert ByOpenSessions(target=8)(Context({}, ["a"], 2)) == (2, {})
