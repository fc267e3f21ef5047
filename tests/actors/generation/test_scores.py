"""Log-probabilities against a full forward pass of the same model."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load_model

from actors.generation.messages import Sampling, ToneCurve
from actors.generation.scores import Scores
from tests.conftest import KINDS
from tests.support.engine import Outcome, rig
from tests.support.penalized import penalized

Tiny = Callable[[str], Path]
END = 256
LENGTHS = [5, 40, 12, 71, 3, 25]
PENALTIES = Sampling(
    temperature=1.0,
    seed=3,
    logit_bias=((17, 3.0), (40, -5.0), (END, -100.0)),
    repetition_penalty=1.3,
    repetition_window=6,
    presence_penalty=0.5,
    presence_window=0,
    frequency_penalty=0.4,
    frequency_window=9,
)
FILTERS = Sampling(
    temperature=0.6,
    seed=4,
    logit_bias=((END, -100.0),),
    top_p=0.9,
    top_k=20,
    min_p=0.01,
    xtc_probability=0.5,
    tone=ToneCurve(1.0, 1.0, 1.0, 0.0),
)


def prompts() -> list[list[int]]:
    source = random.Random(5)
    return [[source.randrange(255) for _ in range(length)] for length in LENGTHS]


def logprobs_of(path: Path, outcome: Outcome) -> list[np.ndarray]:
    """What each token was picked from: log-softmax of the full pass's logits, with bias and penalties."""
    model, _ = load_model(path)
    tokens = outcome.row.tokens
    logits = np.array(model(mx.array([tokens]))[0].astype(mx.float32))
    start = len(tokens) - len(outcome.tokens)
    every = []
    for at in range(start, len(tokens)):
        row = penalized(logits[at - 1], outcome.row.request.sampling, tokens[:at])
        every.append(row - row.max() - np.log(np.sum(np.exp(row - row.max()))))
    return every


def check(path: Path, outcome: Outcome) -> None:
    """Every token has a score, and it is the full pass's."""
    count = outcome.row.request.top_logprobs
    assert outcome.failure is None
    if count is None:
        assert outcome.scores == []
        return
    assert len(outcome.scores) == len(outcome.tokens) > 0
    for token, score, expected in zip(outcome.tokens, outcome.scores, logprobs_of(path, outcome), strict=True):
        assert score.logprob == pytest.approx(expected[token], abs=2e-3)
        assert len(score.top) == count
        values = [value for _, value in score.top]
        assert values == sorted(values, reverse=True)
        assert values == pytest.approx(sorted(expected, reverse=True)[:count], abs=2e-3)
        assert values == pytest.approx([expected[best] for best, _ in score.top], abs=2e-3)
        assert len({best for best, _ in score.top}) == count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [Sampling(), PENALTIES, FILTERS], ids=["greedy", "penalties", "filters"])
def test_a_lone_row_gets_the_log_probabilities_of_a_full_pass(tiny: Tiny, kind: str, sampling: Sampling) -> None:
    with rig(tiny(kind)) as running:
        outcome = running.submit(prompts()[1], 16, sampling, top_logprobs=3)
        running.wait(outcome)
    check(tiny(kind), outcome)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_ask_for_different_counts_beside_rows_that_do_not_ask(tiny: Tiny, kind: str) -> None:
    asked = [(None, Sampling()), (0, PENALTIES), (11, Sampling()), (None, FILTERS), (4, FILTERS), (1, PENALTIES)]
    with rig(tiny(kind), budget=256) as running:
        outcomes = [
            running.submit(prompt, 12, sampling, top_logprobs=count)
            for prompt, (count, sampling) in zip(prompts(), asked, strict=True)
        ]
        running.wait(*outcomes)
    for outcome in outcomes:
        check(tiny(kind), outcome)


@pytest.mark.parametrize("kind", ["llama", "sliding", "hybrid"])
def test_scores_stay_with_their_rows_while_others_join_and_leave(tiny: Tiny, kind: str) -> None:
    limits = [3, 31, 9, 17, 1, 24]
    counts = [2, None, 5, 0, 3, 1]
    with rig(tiny(kind), max_rows=3, budget=16) as running:
        outcomes = [
            running.submit(prompt, limit, PENALTIES if index % 2 else FILTERS, top_logprobs=count)
            for index, (prompt, limit, count) in enumerate(zip(prompts(), limits, counts, strict=True))
        ]
        running.wait(*outcomes)
    assert [len(outcome.tokens) for outcome in outcomes] == limits
    for outcome in outcomes:
        check(tiny(kind), outcome)


def test_scores_are_right_while_a_long_prompt_is_computed_in_chunks_between(tiny: Tiny) -> None:
    with rig(tiny("llama"), budget=16) as running:
        early = running.submit(prompts()[0], 60, PENALTIES, top_logprobs=2)
        running.wait_for_tokens(early, 3)
        long = running.submit(prompts()[3] * 9, 5, Sampling(), top_logprobs=4)
        running.wait(early, long)
    check(tiny("llama"), early)
    check(tiny("llama"), long)


def test_a_cancelled_neighbour_takes_no_score_with_it(tiny: Tiny) -> None:
    with rig(tiny("llama")) as running:
        leaving = running.submit(prompts()[0], None, top_logprobs=5)
        staying = [running.submit(prompt, 60, PENALTIES, top_logprobs=1) for prompt in prompts()[1:3]]
        running.wait_for_tokens(leaving, 8)
        running.cancel(leaving)
        running.wait(leaving, *staying)
    for outcome in (leaving, *staying):
        check(tiny("llama"), outcome)


def test_the_end_token_has_a_score_too(tiny: Tiny) -> None:
    ending = Sampling(temperature=1.0, seed=1, logit_bias=((END, 9.0),))
    with rig(tiny("llama")) as running:
        beside = running.submit(prompts()[1], 30, top_logprobs=0)
        outcomes = [running.submit(prompt, 200, ending, top_logprobs=2) for prompt in prompts()[:3]]
        running.wait(beside, *outcomes)
    for outcome in outcomes:
        assert (outcome.tokens[-1], outcome.finish) == (END, "stop")
        check(tiny("llama"), outcome)
    check(tiny("llama"), beside)


def test_asking_changes_no_token(tiny: Tiny) -> None:
    with rig(tiny("llama")) as running:
        plain = [running.run(prompt, sampling=PENALTIES) for prompt in prompts()[:3]]
        asking = [running.submit(prompt, sampling=PENALTIES, top_logprobs=7) for prompt in prompts()[:3]]
        running.wait(*asking)
    assert [outcome.tokens for outcome in asking] == plain


def test_more_likely_tokens_than_the_vocabulary_has_are_all_of_it() -> None:
    scores = Scores([None, 9], mx.default_stream(mx.default_device()))
    logits = mx.array([[0.0, 0.0, 0.0], [1.0, 3.0, 2.0]])
    pending = scores(logits, mx.array([0, 2], dtype=mx.int32))
    assert pending is not None
    read = scores.read(pending)
    assert list(read) == [1]
    assert [token for token, _ in read[1].top] == [1, 2, 0]
    assert read[1].logprob == pytest.approx(2.0 - np.log(np.sum(np.exp([1.0, 3.0, 2.0]))), abs=1e-6)


def test_rows_without_the_wish_cost_nothing() -> None:
    assert (
        Scores([None, None], mx.default_stream(mx.default_device()))(mx.zeros((2, 4)), mx.array([0, 1], dtype=mx.int32))
        is None
    )


@pytest.mark.parametrize("vocabulary", [4096, 4000])
def test_the_likeliest_tokens_of_a_large_vocabulary_are_all_found(vocabulary: int) -> None:
    values = np.random.default_rng(5).normal(size=(3, vocabulary)).astype(np.float32)
    # All of one row's best stand in one block.
    values[0, 512:523] += 50
    scores = Scores([11] * 3, mx.default_stream(mx.default_device()))
    pending = scores(mx.array(values), mx.array(values.argmax(axis=1).astype(np.int32)))
    assert pending is not None
    read = scores.read(pending)
    for row in range(3):
        expected = np.argsort(-values[row])[:11]
        assert [token for token, _ in read[row].top] == expected.tolist()
        logprobs = values[row].astype(np.float64) - np.log(np.exp(values[row].astype(np.float64)).sum())
        assert [value for _, value in read[row].top] == pytest.approx(logprobs[expected].tolist(), abs=1e-4)
