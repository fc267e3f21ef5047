"""Which numbers of a statistics record become metrics."""

from __future__ import annotations

from dataclasses import dataclass

from actors.gauges import figures
from actors.gpu_lease.messages import ClassStatistics, LeaseStatistics


@dataclass(frozen=True)
class Inner:
    depth: int


@dataclass(frozen=True)
class Outer:
    rows: int
    name: str
    busy: bool
    inner: Inner
    missing: int | None = None


def test_numbers_are_named_by_their_path_and_text_is_left_out() -> None:
    assert dict(figures(Outer(3, "x", True, Inner(5)))) == {"rows": 3.0, "busy": 1.0, "inner_depth": 5.0}


def test_the_classes_of_the_lease_are_told_apart() -> None:
    state = ClassStatistics(waiting=2, grants=1, wait_s=0.5, oldest_wait_s=0.1, work_s=3.0)
    names = dict(
        figures(
            LeaseStatistics(
                1, None, 0.0, {"interactive": state}, deaths=0, reserved_bytes=7, budget_bytes=9, mailbox_depth=0
            )
        )
    )
    assert names["classes_interactive_waiting"] == 2.0
    assert names["reserved_bytes"] == 7.0
    assert "holder" not in names
