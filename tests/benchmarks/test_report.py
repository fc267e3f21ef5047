"""benchmarks/report.py."""

from __future__ import annotations

import math

import pytest

from benchmarks.figures import Sample
from benchmarks.footprint import Footprint
from benchmarks.report import (
    BARE,
    BEGIN,
    END,
    OURS,
    PEER,
    footprint_table,
    goals,
    medians,
    number,
    replace_section,
    tables,
)

RATE = "8 streams: decode phase, tokens/s"


def rates(side: str, *values: float, figure: str = RATE, model: str = "starter") -> list[Sample]:
    return [Sample(model, "throughput", side, figure, value) for value in values]


def test_medians_leave_out_what_is_no_number() -> None:
    assert medians(rates(OURS, 1, math.nan, 3, 8)) == {("starter", OURS, RATE): 3}


def test_a_table_has_medians_spread_and_ratios() -> None:
    table = tables([*rates(OURS, 90, 100, 95), *rates(PEER, 50), *rates(BARE, 100, 100)])
    assert "### starter: throughput" in table
    assert f"| figure | {OURS} | {PEER} | {BARE} | {OURS} / {PEER} | {OURS} / {BARE} |" in table
    assert f"| {RATE} | 95 (90 to 100) | 50 | 100 | 1.90 | 0.95 |" in table


def test_a_side_without_a_figure_leaves_its_cells_empty() -> None:
    table = tables([*rates(OURS, 10, figure="a: x"), *rates(PEER, 10, figure="a: y")])
    assert "| a: x | 10 |  |  |" in table
    assert "| a: y |  | 10 |  |" in table


def test_figures_of_one_subject_stand_together() -> None:
    table = tables([*rates(BARE, 1, figure="a: x"), *rates(BARE, 1, figure="b: x"), *rates(OURS, 1, figure="a: y")])
    assert [line.split(" | ")[0] for line in table.splitlines()[4:]] == ["| a: x", "| a: y", "| b: x"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (64, "64"), (1234.5, "1,234"), (99.96, "100.0"), (0.0565, "0.0565"), (-78.84, "-78.8")],
)
def test_numbers_show_three_digits(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("ours", "verdict"), [(97.0, "yes"), (96.9, "no")])
def test_a_goal_against_another_side_is_judged_as_a_ratio(ours: float, verdict: str) -> None:
    table = goals([*rates(OURS, ours), *rates(BARE, 100)], [])
    assert f"| >= 0.97 | {number(ours / 100)} | {verdict} |" in table


def test_a_goal_that_was_not_measured_is_left_out() -> None:
    assert goals(rates(OURS, 10), []) == ""


@pytest.mark.parametrize(("late_ms", "verdict"), [(15.0, "yes"), (16.0, "no")])
def test_first_tokens_may_come_a_little_later(late_ms: float, verdict: str) -> None:
    figure = "short prompt, idle server: first token, median, ms"
    samples = [*rates(OURS, 300 + late_ms, figure=figure), *rates(PEER, 300, figure=figure)]
    assert f"| <= 15 | {number(late_ms)} | {verdict} |" in goals(samples, [])


def test_the_scheduler_may_be_busy_while_the_others_idle() -> None:
    busy, quiet = Footprint("GenerationScheduler", 1, 90, 500, 400), Footprint("Ingress", 1, 4, 200, 150)
    assert "| <= 10 | 4 | yes |" in goals([], [busy, quiet])
    assert "| <= 10 | 14 | no |" in goals([], [busy, quiet, Footprint("Ray raylet", 1, 10, 30, 20)])


def test_processes_are_summed_without_the_scheduler() -> None:
    scheduler, ingress = Footprint("GenerationScheduler", 1, 1, 500, 400), Footprint("Ingress", 2, 3, 200, 150)
    assert "| **all but the scheduler** | 2 | 3.0 | 200 | 150 |" in footprint_table([scheduler, ingress])
    assert "all but" not in footprint_table([ingress])


def test_the_section_between_the_marks_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert replace_section(page, "new\n") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"


@pytest.mark.parametrize("page", ["nothing", f"{BEGIN} only", f"{END} {BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_both_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="should hold"):
        replace_section(page, "new")
