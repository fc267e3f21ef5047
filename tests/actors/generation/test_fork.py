"""Several answers to one prompt: computed once, and each what the same request gets alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.generation import engine, fork, kv
from actors.generation.messages import Sampling
from tests.conftest import KINDS
from tests.support import checkpoints
from tests.support.engine import Outcome, Rig, rig

Tiny = Callable[[str], Path]
SEEDED = Sampling(temperature=1.0, top_p=0.95, seed=2**64 - 2, presence_penalty=0.5)


def prompt_of(length: int, seed: int = 21) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(255) for _ in range(length)]


def alone(running: Rig, prompt: list[int], choices: int, max_tokens: int = 16) -> list[list[int]]:
    seeds = [(SEEDED.seed + index) % 2**64 for index in range(choices)]
    return [running.run(prompt, max_tokens=max_tokens, sampling=replace(SEEDED, seed=seed)) for seed in seeds]


def tokens_of(outcomes: list[Outcome]) -> list[list[int]]:
    return [outcome.tokens for outcome in outcomes]


def assert_nothing_is_kept(outcomes: list[Outcome]) -> None:
    choices = outcomes[0].row.choices
    assert choices is not None
    assert (choices.prompt, choices.leader, choices.parked, choices.unstarted) == (None, None, [], 0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_choice_equals_the_same_request_alone_with_its_own_seed(tiny: Tiny, kind: str) -> None:
    prompt = prompt_of(50)
    with rig(tiny(kind)) as running:
        expected = alone(running, prompt, 4)
        before = running.engine.tally.prompt_tokens
        outcomes = running.submit_choices(prompt, 4, 16, SEEDED)
        running.wait(*outcomes)
        assert running.engine.tally.prompt_tokens - before == len(prompt) - 1, "the prompt is computed once"
    assert tokens_of(outcomes) == expected
    assert len({tuple(tokens) for tokens in expected}) > 1
    assert [outcome.cached for outcome in outcomes] == [0, 49, 49, 49]
    assert_nothing_is_kept(outcomes)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_choices_are_all_the_lone_answer_beside_other_rows(tiny: Tiny, kind: str) -> None:
    prompt = prompt_of(33)
    with rig(tiny(kind), budget=16) as running:
        expected = running.run(prompt)
        others = [running.run(prompt_of(length, seed=length)) for length in (9, 40)]
        beside = [running.submit(prompt_of(length, seed=length)) for length in (9, 40)]
        outcomes = running.submit_choices(prompt, 3)
        running.wait(*outcomes, *beside)
    assert tokens_of(outcomes) == [expected] * 3
    assert tokens_of(beside) == others


@pytest.mark.parametrize("kind", KINDS)
def test_more_choices_than_free_seats_still_compute_the_prompt_once(tiny: Tiny, kind: str) -> None:
    prompt = prompt_of(40)
    with rig(tiny(kind), max_rows=2) as running:
        expected = alone(running, prompt, 5)
        before = running.engine.tally.prompt_tokens
        outcomes = running.submit_choices(prompt, 5, 16, SEEDED)
        running.wait(*outcomes)
        assert running.engine.tally.prompt_tokens - before == len(prompt) - 1
    assert tokens_of(outcomes) == expected
    assert_nothing_is_kept(outcomes)


def test_choices_that_come_one_by_one_find_the_prompt_kept_for_them(tiny: Tiny) -> None:
    prompt = prompt_of(40)
    with rig(tiny("sliding"), max_rows=2) as running:
        expected = alone(running, prompt, 3, max_tokens=30)
        before = running.engine.tally.prompt_tokens
        outcomes = running.prepare(prompt, 30, SEEDED, None, 0, None, choices=3)
        for outcome in outcomes:
            running.engine.inbox.put_row(outcome.row)
            running.wait_for_tokens(outcome, 2)
        running.wait(*outcomes)
        assert running.engine.tally.prompt_tokens - before == len(prompt) - 1
    assert tokens_of(outcomes) == expected
    assert_nothing_is_kept(outcomes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_of_one_token_has_choices_too(tiny: Tiny, kind: str) -> None:
    with rig(tiny(kind)) as running:
        expected = alone(running, [65], 3)
        outcomes = running.submit_choices([65], 3, 16, SEEDED)
        running.wait(*outcomes)
    assert tokens_of(outcomes) == expected
    assert_nothing_is_kept(outcomes)


@pytest.mark.parametrize("kind", KINDS)
def test_choices_after_a_stored_prefix_compute_only_what_follows_it_once(tiny: Tiny, kind: str) -> None:
    with rig(tiny(kind)) as running:
        running.run(prompt_of(40))
        entry = max(running.prefixes, key=lambda prefix: len(prefix.tokens))
        prompt = [*entry.tokens, *prompt_of(20, seed=5)]
        expected = alone(running, prompt, 3)
        before = running.engine.tally.prompt_tokens
        outcomes = running.submit_choices(prompt, 3, 16, SEEDED, entry=entry, length=len(entry.tokens))
        running.wait(*outcomes)
        assert running.engine.tally.prompt_tokens - before == 19
    assert tokens_of(outcomes) == expected
    assert [outcome.cached for outcome in outcomes] == [len(entry.tokens), len(prompt) - 1, len(prompt) - 1]


def test_a_leader_cancelled_while_prefilling_hands_the_prompt_to_the_next(tiny: Tiny) -> None:
    prompt = prompt_of(600)
    with rig(tiny("llama"), budget=16, store=None) as running:
        expected = alone(running, prompt, 4)
        beside = running.submit(prompt_of(5), None, Sampling(logit_bias=((256, -100.0),)))
        running.wait_for_tokens(beside, 3)
        start = len(beside.tokens)
        outcomes = running.submit_choices(prompt, 4, 16, SEEDED)
        running.wait_for_tokens(beside, start + 8)
        running.cancel(outcomes[0])
        running.wait(*outcomes)
        running.cancel(beside)
        running.wait(beside)
        assert running.engine.tally.cancelled == 2
    assert outcomes[0].tokens == []
    assert tokens_of(outcomes[1:]) == expected[1:]
    assert_nothing_is_kept(outcomes)


def test_a_parked_choice_that_is_cancelled_costs_the_others_nothing(tiny: Tiny) -> None:
    prompt = prompt_of(600)
    with rig(tiny("llama"), budget=16) as running:
        expected = alone(running, prompt, 3)
        before = running.engine.tally.prompt_tokens
        outcomes = running.submit_choices(prompt, 3, 16, SEEDED)
        running.cancel(outcomes[1])
        running.wait(outcomes[1])
        running.wait(*outcomes)
        assert running.engine.tally.prompt_tokens - before == len(prompt) - 1
    assert outcomes[1].tokens == []
    assert [outcomes[0].tokens, outcomes[2].tokens] == [expected[0], expected[2]]
    assert_nothing_is_kept(outcomes)


def test_all_choices_cancelled_at_once_end_and_free_their_seats(tiny: Tiny) -> None:
    with rig(tiny("llama"), max_rows=2, budget=16) as running:
        outcomes = running.submit_choices(prompt_of(3000), 5, None, SEEDED)
        for outcome in outcomes:
            running.cancel(outcome)
        running.wait(*outcomes)
        assert running.engine.tally.cancelled == 5
        assert len(running.run(prompt_of(9), max_tokens=5)) == 5
    assert_nothing_is_kept(outcomes)


def test_a_prompt_that_makes_the_model_raise_fails_every_choice_and_nobody_else(tmp_path: Path) -> None:
    with rig(checkpoints.failing(tmp_path / "failing", token="!"), max_rows=3) as running:
        expected = running.run([65, 66, 67])
        beside = running.submit([65, 66, 67])
        outcomes = running.submit_choices([70, ord("!"), 71, 72], 5)
        running.wait(beside, *outcomes)
        assert running.engine.tally.failed == 5
    assert [outcome.finish for outcome in outcomes] == ["error"] * 5
    assert beside.tokens == expected
    assert_nothing_is_kept(outcomes)


def test_a_last_prompt_token_that_makes_the_model_raise_fails_every_choice(tmp_path: Path) -> None:
    """The prompt but its last token is computed and shared; the shared decode step raises."""
    with rig(checkpoints.failing(tmp_path / "failing", token="!"), max_rows=4) as running:
        expected = running.run([65, 66, 67])
        beside = running.submit([65, 66, 67])
        outcomes = running.submit_choices([70, 71, ord("!")], 3)
        running.wait(beside, *outcomes)
        assert running.engine.tally.failed == 3
    assert beside.tokens == expected
    assert_nothing_is_kept(outcomes)


def test_a_prompt_that_cannot_be_copied_is_computed_again_by_the_next_choice(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = kv.exact
    failures = []

    def fail_once(caches: kv.RowCaches) -> kv.RowCaches:
        if not failures:
            failures.append(1)
            raise MemoryError("no room for a copy")
        return exact(caches)

    prompt = prompt_of(40)
    with rig(tiny("llama"), store=None) as running:
        expected = alone(running, prompt, 3)
        monkeypatch.setattr(kv, "exact", fail_once)
        outcomes = running.submit_choices(prompt, 3, 16, SEEDED)
        running.wait(*outcomes)
        assert running.engine.tally.failed == 0
    assert tokens_of(outcomes) == expected
    assert failures == [1]
    assert_nothing_is_kept(outcomes)


def test_a_step_loop_that_fails_ends_parked_choices_too(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = engine.plan
    failures = []

    def fail_once(*arguments: Any) -> Any:
        choices = outcomes[0].row.choices
        if choices is not None and len(choices.parked) == 2 and not failures:
            failures.append(1)
            raise RuntimeError("no plan")
        return plan(*arguments)

    with rig(tiny("llama"), max_rows=2, budget=16) as running:
        outcomes = running.prepare(prompt_of(600), 8, None, None, 0, None, choices=3)
        monkeypatch.setattr(engine, "plan", fail_once)
        for outcome in outcomes:
            running.engine.inbox.put_row(outcome.row)
        running.wait(*outcomes)
        assert running.engine.tally.failed == 3
        assert len(running.run(prompt_of(9), max_tokens=5)) == 5
    assert [outcome.finish for outcome in outcomes] == ["error"] * 3
    assert_nothing_is_kept(outcomes)


def test_a_row_without_other_choices_is_never_parked(tiny: Tiny) -> None:
    with rig(tiny("llama")) as running:
        row = running.submit(prompt_of(5)).row
        assert not fork.park(row)
        assert fork.gone(row) == []
        assert fork.parked([row]) == []


def test_choices_report_their_own_log_probabilities(tiny: Tiny) -> None:
    prompt = prompt_of(20)
    with rig(tiny("llama")) as running:
        lone = running.submit(prompt, 10, SEEDED, top_logprobs=2)
        running.wait(lone)
        outcomes = running.submit_choices(prompt, 3, 10, SEEDED, top_logprobs=2)
        running.wait(*outcomes)
    assert [score.logprob for score in outcomes[0].scores] == pytest.approx(
        [score.logprob for score in lone.scores], abs=1e-4
    )
    assert [len(outcome.scores) for outcome in outcomes] == [len(outcome.tokens) for outcome in outcomes]
