from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.generation.policy import PrefillJob, PrefillRate, StepPlan, crowd, plan


def jobs(*remaining: int) -> list[PrefillJob]:
    return [PrefillJob(f"row{number}", left) for number, left in enumerate(remaining)]


def lengths(step: StepPlan) -> list[tuple[str, int]]:
    return list(step.chunk or ())


def test_nothing_to_compute_gives_an_empty_plan() -> None:
    assert plan(3, 8, [], 256, True) == StepPlan(None, ())


def test_a_long_prompt_is_cut_to_the_budget_and_runs_alone() -> None:
    assert plan(1, 8, jobs(1000, 10, 10), 256, True) == StepPlan((("row0", 256),), ())


def test_the_last_piece_of_a_prompt_is_exactly_what_remains() -> None:
    assert plan(1, 8, jobs(100), 256, True) == StepPlan((("row0", 100),), ())


def test_a_pass_ends_where_a_state_is_to_be_kept_and_holds_no_other_row() -> None:
    kept = PrefillJob("kept", 40, stop=35)
    assert lengths(plan(0, 8, [kept, *jobs(10)], 256, True)) == [("kept", 35)]
    assert lengths(plan(0, 8, [kept, *jobs(10)], 32, True)) == [("kept", 32)]
    assert lengths(plan(0, 8, [*jobs(10), kept, PrefillJob("after", 5)], 256, True)) == [("row0", 10), ("after", 5)]


def test_whole_prompts_share_a_pass_while_the_padded_cost_fits() -> None:
    assert lengths(plan(0, 8, jobs(60, 64, 50, 64, 64), 256, True)) == [
        ("row0", 60),
        ("row1", 64),
        ("row2", 50),
        ("row3", 64),
    ]


def test_a_prompt_that_does_not_fit_is_skipped_and_a_later_one_taken() -> None:
    assert lengths(plan(0, 8, jobs(40, 200, 30), 100, True)) == [("row0", 40), ("row2", 30)]


def test_padding_is_counted_for_short_rows_beside_a_long_one() -> None:
    assert lengths(plan(0, 8, jobs(200, 1), 256, True)) == [("row0", 200)]
    assert lengths(plan(0, 8, jobs(1, 200), 256, True)) == [("row0", 1)]
    assert lengths(plan(0, 8, jobs(1, 128), 256, True)) == [("row0", 1), ("row1", 128)]


def test_padding_grows_with_the_longest_row_taken() -> None:
    assert lengths(plan(0, 8, jobs(1, 100, 1), 256, True)) == [("row0", 1), ("row1", 100)]
    assert lengths(plan(0, 8, jobs(1, 100, 1), 300, True)) == [("row0", 1), ("row1", 100), ("row2", 1)]


def test_a_pass_makes_no_more_rows_than_there_are_seats() -> None:
    assert len(lengths(plan(0, 3, jobs(8, 8, 8, 8), 256, True))) == 3
    assert len(lengths(plan(2, 4, jobs(8, 8, 8, 8), 256, True))) == 2
    assert plan(2, 4, jobs(0, 8, 8), 256, True) == StepPlan((("row1", 8),), ("row0",))


def test_the_oldest_prompt_is_computed_even_when_every_seat_is_taken() -> None:
    assert lengths(plan(4, 4, jobs(8, 8), 256, True)) == [("row0", 8)]


def test_rows_without_a_rest_join_at_once() -> None:
    assert plan(1, 8, jobs(0, 300, 0), 256, True) == StepPlan((("row1", 256),), ("row0", "row2"))


def test_rows_join_even_without_a_budget() -> None:
    assert plan(1, 8, jobs(0, 300), 0, True) == StepPlan(None, ("row0",))


def test_models_that_cannot_batch_serve_one_row_at_a_time() -> None:
    assert lengths(plan(0, 8, jobs(8, 8), 256, False)) == [("row0", 8)]
    assert plan(0, 8, jobs(0, 0), 256, False).join == ("row0",)
    assert plan(1, 8, jobs(0), 256, False).join == ()


@given(
    decoding=st.integers(0, 4),
    remaining=st.lists(st.integers(0, 600), max_size=8),
    budget=st.integers(1, 512),
    joinable=st.booleans(),
)
def test_every_plan_keeps_to_its_limits(decoding: int, remaining: list[int], budget: int, joinable: bool) -> None:
    step = plan(decoding, 8, jobs(*remaining), budget, joinable)
    chunk = lengths(step)
    left = {job.key: job.remaining for job in jobs(*remaining)}
    unfinished = [key for key, tokens in left.items() if tokens > 0]
    assert [key for key, _ in chunk][:1] == unfinished[:1]
    assert len({*step.join, *(key for key, _ in chunk)}) == len(step.join) + len(chunk)
    assert all(left[key] == 0 for key in step.join)
    assert all(tokens == left[key] for key, tokens in chunk[1:])
    if chunk:
        assert chunk[0][1] == min(left[chunk[0][0]], budget)
        assert max(tokens for _, tokens in chunk) * len(chunk) <= budget
    if len(chunk) > 1:
        assert joinable
        assert decoding + len(step.join) + len(chunk) <= 8


class Machine:
    """Passes that cost a fixed time and a time a token."""

    def __init__(self, fixed_s: float, token_s: float) -> None:
        self.fixed_s = fixed_s
        self.token_s = token_s

    def run(self, rate: PrefillRate, decoding: int, passes: int) -> list[int]:
        """Follow the budget for some passes; returns the sizes."""
        sizes: list[int] = []
        for _ in range(passes):
            sizes.append(rate.budget(decoding))
            self.feed(rate, sizes[-1:])
        return sizes

    def feed(self, rate: PrefillRate, sizes: Sequence[int], noise: random.Random | None = None) -> None:
        for tokens in sizes:
            factor = noise.uniform(0.8, 1.2) if noise else 1.0
            rate.observe(tokens, factor * (self.fixed_s + self.token_s * tokens))


def test_the_first_budget_is_a_small_guess() -> None:
    rate = PrefillRate(0.25, 2048)
    assert (rate.budget(1), rate.budget(0), rate.tokens_per_s) == (64, 64, 0.0)


def test_the_budget_settles_where_the_stall_is_met() -> None:
    # 0.04 s + 0.0005 s a token: 420 tokens in 0.25 s.
    rate = PrefillRate(0.25, 2048)
    sizes = Machine(0.04, 0.0005).run(rate, 1, 30)
    assert sizes[:2] == [64, 208]
    assert set(sizes[2:]) == {416}


def test_a_lone_prompt_gets_chunks_of_about_a_second() -> None:
    rate = PrefillRate(0.25, 8192)
    sizes = Machine(0.1, 0.0005).run(rate, 0, 20)
    assert sizes[:2] == [64, 256]
    # Even sizes leave only the plain rate, which lands within one grain of the exact 1800 tokens.
    assert set(sizes[4:]) <= {1776, 1792}


def test_small_passes_do_not_keep_themselves_small() -> None:
    # Sixteen tokens run at 390 a second here, two thousand at 1900.
    rate = PrefillRate(0.25, 2048)
    machine = Machine(0.033, 0.0005)
    machine.feed(rate, [16] * 12)
    assert machine.run(rate, 1, 12)[-1] >= 416


def test_a_fit_is_not_trusted_far_beyond_its_data() -> None:
    rate = PrefillRate(0.25, 4096)
    rate.observe(16, 0.001)
    assert rate.budget(1) == 64
    assert rate.budget(0) == 64


def test_budgets_are_multiples_of_sixteen_between_their_bounds() -> None:
    slow, fast = PrefillRate(0.25, 1000), PrefillRate(0.25, 1000)
    slow.observe(64, 10.0)
    fast.observe(900, 0.001)
    assert (slow.budget(1), slow.budget(0)) == (16, 64)
    assert (fast.budget(1), fast.budget(0)) == (992, 992)


def test_the_step_limit_wins_over_the_least_budget() -> None:
    rate = PrefillRate(0.25, 20)
    assert (rate.budget(0), rate.budget(1)) == (16, 16)


def test_a_fixed_cost_beyond_the_target_does_not_shrink_chunks_to_nothing() -> None:
    # 0.3 s fixed: every chunk stalls longer than 0.1 s; a quarter of the target is spent on tokens all the same.
    rate = PrefillRate(0.1, 2048)
    Machine(0.3, 0.0001).feed(rate, [64, 128, 256, 512])
    assert rate.budget(1) == 240


def test_a_slow_first_pass_is_forgotten_after_two_more() -> None:
    rate = PrefillRate(0.25, 2048)
    rate.observe(64, 4.0)
    assert rate.budget(1) == 16
    Machine(0.0, 0.001).feed(rate, [16, 16])
    assert rate.budget(1) == 240


def test_only_short_prompts_at_the_head_of_the_line_are_a_crowd() -> None:
    short, long = PrefillJob("short", 20), PrefillJob("long", 1000)
    assert crowd([]) == 0
    assert crowd([short, short, long, short]) == 2
    assert crowd([long, short, short]) == 0


def test_many_newcomers_get_a_longer_pass_than_few_running_rows_would_grant_one() -> None:
    rate = PrefillRate(stall_s=0.25, step_tokens=2048)
    for tokens in (64, 128, 256):
        rate.observe(tokens, 0.05 + tokens / 1000)
    assert rate.budget(1, 1) == rate.budget(7, 7) == 192
    assert rate.budget(1, 7) == 944
    assert rate.budget(0, 8) == 944


def test_a_stray_pass_does_not_move_the_budget() -> None:
    rate = PrefillRate(0.25, 2048)
    machine = Machine(0.02, 0.001)
    machine.feed(rate, [64, 128, 192, 224, 100, 150])
    before = rate.budget(1)
    rate.observe(128, 30.0)
    assert (before, rate.budget(1)) == (224, 224)


def test_noise_leaves_the_budget_near_the_truth() -> None:
    noise = random.Random(7)
    for _ in range(20):
        rate = PrefillRate(0.25, 2048)
        Machine(0.02, 0.001).feed(rate, [noise.randrange(100, 300) for _ in range(12)], noise)
        assert 150 <= rate.budget(1) <= 320


def test_passes_of_almost_one_size_give_the_plain_rate() -> None:
    # The slope between 200 and 202 tokens is noise; 0.001 s a token is not.
    rate = PrefillRate(0.25, 2048)
    rate.observe(200, 0.2)
    rate.observe(202, 0.2001)
    assert rate.budget(1) == 240


def test_short_prompts_of_nearly_one_size_do_not_drown_what_a_long_pass_tells() -> None:
    rate = PrefillRate(0.4, 2048)
    # Small products take hardly longer for a token more: slopes among the short ones say that tokens cost nothing.
    for tokens in (20, 24, 21, 25, 22, 19, 24, 20, 23, 18, 22):
        rate.observe(tokens, 0.1 + 0.00005 * tokens)
    rate.observe(96, 0.404)
    assert 64 <= rate.budget(1) <= 112


def test_a_changed_machine_is_followed() -> None:
    rate = PrefillRate(0.25, 2048)
    Machine(0.01, 0.0005).run(rate, 1, 20)
    assert Machine(0.01, 0.002).run(rate, 1, 20)[-1] in (112, 96)


def test_useless_measures_are_ignored() -> None:
    rate = PrefillRate(0.25, 2048)
    for tokens, seconds in ((0, 1.0), (-5, 1.0), (64, 0.0), (64, -1.0), (64, float("nan")), (64, float("inf"))):
        rate.observe(tokens, seconds)
    assert (rate.budget(1), rate.tokens_per_s) == (64, 0.0)


def test_the_rate_is_tokens_over_seconds() -> None:
    rate = PrefillRate(0.25, 2048)
    rate.observe(100, 0.5)
    rate.observe(300, 0.5)
    assert rate.tokens_per_s == pytest.approx(400.0)


@given(
    passes=st.lists(st.tuples(st.integers(1, 70000), st.floats(1e-9, 1e6)), max_size=20),
    decoding=st.integers(0, 8),
    step_tokens=st.integers(16, 65536),
    stall_s=st.floats(0.001, 10),
)
def test_any_measures_give_a_budget_within_bounds(
    passes: list[tuple[int, float]], decoding: int, step_tokens: int, stall_s: float
) -> None:
    rate = PrefillRate(stall_s, step_tokens)
    for tokens, seconds in passes:
        rate.observe(tokens, seconds)
    budget = rate.budget(decoding)
    assert budget % 16 == 0
    assert 16 <= budget <= step_tokens
