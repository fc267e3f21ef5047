"""Rows under a grammar in the engine: what comes out of them, what their neighbours notice, and what goes wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from actors.generation.batch import DecodeBatch
from actors.generation.grammar import tokens as vocabularies
from actors.generation.grammar.compiler import Compiled
from actors.generation.grammar.constraint import Constraint
from actors.generation.grammar.matcher import RowMatcher
from actors.generation.grammar.recipe import build
from actors.generation.messages import Sampling
from tests.conftest import KINDS
from tests.support import checkpoints
from tests.support.engine import Outcome, rig

Tiny = Callable[[str], Path]
END = 256
DIGITS = [ord(digit) for digit in "0123456789"]
LETTERS = [ord(letter) for letter in "abcdefgh"]
HOT = Sampling(temperature=1.0, seed=77)
LASTING = Sampling(logit_bias=((END, -100.0),))
"""Greedy, and never at an end before its limit."""
EVERYTHING = Sampling(
    temperature=1.2,
    seed=9,
    top_p=0.95,
    repetition_penalty=1.3,
    presence_penalty=0.7,
    frequency_penalty=0.2,
    logit_bias=((ord("a"), 2.0),),
)


class Turns:
    """Digits and letters in turn, and nothing after `length` tokens.

    Args:
        length: tokens of a whole answer; None has no end.
        accept_fails: at which token `accept` raises.
        fill_fails: after how many tokens `fill` raises.
        refuses: at which token `accept` says no.
    """

    def __init__(
        self,
        length: int | None = None,
        accept_fails: int | None = None,
        fill_fails: int | None = None,
        refuses: int | None = None,
    ) -> None:
        self.taken: list[int] = []
        self.fills = 0
        self.binding = True
        self.finished = False
        self.problem: str | None = None
        self._length = length
        self._accept_fails, self._fill_fails, self._refuses = accept_fails, fill_fails, refuses

    def accept(self, token: int) -> bool:
        assert not self.finished, "nothing may follow"
        assert token in self._allowed(), "a token that was masked"
        if len(self.taken) == self._accept_fails:
            raise ValueError("the matcher broke in accept")
        if len(self.taken) == self._refuses:
            self.problem = "this answer leads nowhere"
            return False
        self.taken.append(token)
        self.finished = len(self.taken) == self._length
        return True

    def fill(self, row: np.ndarray) -> None:
        self.fills += 1
        if len(self.taken) == self._fill_fails:
            raise ValueError("the matcher broke in fill")
        bits = np.zeros(len(row) * 32, dtype=np.uint8)
        bits[self._allowed()] = 1
        row[:] = np.packbits(bits, bitorder="little").view("<i4")

    def _allowed(self) -> list[int]:
        return LETTERS if len(self.taken) % 2 else DIGITS


def obeys(tokens: list[int]) -> bool:
    return all(token in (LETTERS if index % 2 else DIGITS) for index, token in enumerate(tokens))


def prompts() -> list[list[int]]:
    source = random.Random(31)
    return [[source.randrange(255) for _ in range(length)] for length in (6, 40, 13, 25)]


@pytest.fixture(scope="module")
def vocabulary(tiny: Tiny) -> vocabularies.Tokens:
    return vocabularies.load(tiny("llama"), checkpoints.VOCABULARY, [END])


@pytest.fixture(scope="module")
def real(vocabulary: vocabularies.Tokens) -> Callable[[Constraint], RowMatcher]:
    """xgrammar's own matcher over the bytes."""
    from xgrammar import GrammarCompiler

    compiler = GrammarCompiler(vocabulary.info, max_threads=1, cache_enabled=False)

    def make(constraint: Constraint) -> RowMatcher:
        return RowMatcher(Compiled(build(compiler, constraint), vocabulary, constraint.after, constraint.opens, 0))

    return make


def text_of(outcome: Outcome) -> str:
    return bytes(token for token in outcome.tokens if token != END).decode()


@pytest.mark.parametrize("kind", KINDS)
def test_only_allowed_tokens_come_out_and_neighbours_are_unchanged(tiny: Tiny, kind: str) -> None:
    with rig(tiny(kind), budget=48) as running:
        alone = [running.run(prompt) for prompt in prompts()[:3]]
        lone = running.submit(prompts()[3], 20, matcher=Turns())
        running.wait(lone)
        beside = [running.submit(prompt) for prompt in prompts()[:3]]
        ruled = running.submit(prompts()[3], 20, matcher=Turns())
        running.wait(ruled, *beside)
    assert obeys(ruled.tokens)
    assert ruled.tokens == lone.tokens
    assert (len(ruled.tokens), ruled.finish) == (20, "length")
    assert [outcome.tokens for outcome in beside] == alone


def test_a_grammar_that_is_satisfied_ends_its_row_as_complete(tiny: Tiny) -> None:
    with rig(tiny("llama")) as running:
        expected = running.run(prompts()[0], max_tokens=30)
        matchers = [Turns(length) for length in (1, 7, 16)]
        beside = running.submit(prompts()[0], 30)
        rows = [running.submit(prompts()[1], 16, HOT, matcher=matcher) for matcher in matchers]
        running.wait(beside, *rows)
        assert running.engine.tally.finished == 5
    assert [(len(row.tokens), row.finish) for row in rows] == [(1, "complete"), (7, "complete"), (16, "complete")]
    assert [matcher.taken for matcher in matchers] == [row.tokens for row in rows]
    assert beside.tokens == expected


@pytest.mark.parametrize(
    ("matcher", "problem", "tokens"),
    [
        (lambda: Turns(refuses=0), "this answer leads nowhere", 0),
        (lambda: Turns(refuses=5), "this answer leads nowhere", 5),
        (lambda: Turns(accept_fails=0), "the matcher broke in accept", 0),
        (lambda: Turns(accept_fails=5), "the matcher broke in accept", 5),
        (lambda: Turns(fill_fails=0), "the matcher broke in fill", 0),
        (lambda: Turns(fill_fails=5), "the matcher broke in fill", 4),
    ],
)
def test_a_matcher_that_goes_wrong_fails_its_own_row_with_its_own_words(
    tiny: Tiny, matcher: Callable[[], Turns], problem: str, tokens: int
) -> None:
    with rig(tiny("llama")) as running:
        expected = running.run(prompts()[0], max_tokens=40, sampling=LASTING)
        plain = running.submit(prompts()[0], 40, LASTING)
        other = Turns()
        healthy = running.submit(prompts()[2], 40, HOT, matcher=other)
        running.wait_for_tokens(plain, 3)
        steps = running.engine.tally.prompt_tokens
        broken = running.submit(prompts()[1], 30, matcher=matcher())
        running.wait(broken, plain, healthy)
        assert running.engine.tally.failed == 1
        assert running.engine.tally.prompt_tokens - steps == len(prompts()[1]) - 1, "nobody started over"
    assert broken.finish == "error"
    assert broken.failure is not None
    assert broken.failure.message == f"generation failed: {problem}"
    assert len(broken.tokens) == tokens
    assert obeys(broken.tokens)
    assert plain.tokens == expected
    assert obeys(healthy.tokens)
    assert other.taken == healthy.tokens


def test_several_matchers_go_wrong_in_the_same_step_and_the_seeded_neighbour_draws_on(tiny: Tiny) -> None:
    with rig(tiny("llama")) as running:
        expected = running.run(prompts()[0], sampling=HOT)
        rows = [running.submit(prompts()[1], 30, matcher=Turns(accept_fails=3)) for _ in range(2)]
        beside = running.submit(prompts()[0], sampling=HOT)
        rows.append(running.submit(prompts()[2], 30, matcher=Turns(refuses=3)))
        running.wait(beside, *rows)
        assert running.engine.tally.failed == 3
    assert [row.finish for row in rows] == ["error"] * 3
    assert beside.tokens == expected


def test_a_lone_row_whose_matcher_raises_leaves_an_engine_that_works(tiny: Tiny) -> None:
    with rig(tiny("llama")) as running:
        expected = running.run(prompts()[0])
        for matcher in (Turns(fill_fails=0), Turns(accept_fails=0), Turns(fill_fails=9), Turns(refuses=29)):
            broken = running.submit(prompts()[1], 30, matcher=matcher)
            running.wait(broken)
            assert broken.finish == "error"
            assert running.run(prompts()[0]) == expected


def test_a_grammar_works_with_scores_penalties_and_seeds_together(tiny: Tiny) -> None:
    with rig(tiny("llama")) as running:
        options: dict[str, Any] = {"max_tokens": 30, "sampling": EVERYTHING, "top_logprobs": 4}
        lone = running.submit(prompts()[1], matcher=Turns(), **options)
        running.wait(lone)
        beside = [running.submit(prompt, 40, LASTING, top_logprobs=index) for index, prompt in enumerate(prompts())]
        ruled = running.submit(prompts()[1], matcher=Turns(), **options)
        running.wait(ruled, *beside)
    assert obeys(ruled.tokens)
    assert ruled.tokens == lone.tokens
    assert len(set(ruled.tokens)) > 4
    assert len(ruled.scores) == len(ruled.tokens) == 30
    assert [score.logprob for score in ruled.scores] == pytest.approx(
        [score.logprob for score in lone.scores], abs=1e-3
    )
    # The scores are those before the grammar: what it forbids can be among the likeliest.
    likeliest = {token for score in ruled.scores for token, _ in score.top}
    assert not likeliest <= {*DIGITS, *LETTERS}
    for token, score in zip(ruled.tokens, ruled.scores, strict=True):
        if token in dict(score.top):
            assert dict(score.top)[token] == pytest.approx(score.logprob, abs=1e-6)
    assert [len(outcome.scores) for outcome in beside] == [40] * 4


@pytest.mark.parametrize("kind", ["llama", "sliding", "hybrid"])
def test_rows_join_and_leave_while_a_grammar_row_runs(tiny: Tiny, kind: str) -> None:
    limits = [4, 25, 11, 18]
    with rig(tiny(kind), max_rows=3, budget=16) as running:
        alone = [running.run(prompt, max_tokens=limit) for prompt, limit in zip(prompts(), limits, strict=True)]
        lone = running.submit(prompts()[2], 60, HOT, matcher=Turns())
        running.wait(lone)
        ruled = running.submit(prompts()[2], 60, HOT, matcher=Turns())
        running.wait_for_tokens(ruled, 3)
        others = [running.submit(prompt, limit) for prompt, limit in zip(prompts(), limits, strict=True)]
        running.wait(ruled, *others)
        short = running.submit(prompts()[1], 9, matcher=Turns())
        plain = running.submit(prompts()[0], limits[0])
        running.wait(short, plain)
    assert [outcome.tokens for outcome in others] == alone
    assert plain.tokens == alone[0]
    assert ruled.tokens == lone.tokens
    assert obeys(ruled.tokens)
    assert obeys(short.tokens)


@pytest.mark.parametrize("kind", ["llama", "hybrid"])
def test_a_pass_that_fails_in_mid_grammar_is_taken_up_where_the_grammar_is(
    tiny: Tiny, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step before was read, and its tokens accepted, when the next pick fails: none is lost or taken twice."""
    pick = DecodeBatch._pick
    failures = []

    def fail_once(batch: DecodeBatch, *arguments: Any) -> Any:
        if len(batch) == 3 and len(matcher.taken) == 6 and not failures:
            failures.append(len(batch))
            raise RuntimeError("this pick fails")
        return pick(batch, *arguments)

    with rig(tiny(kind), budget=256) as running:
        alone = running.run(prompts()[0], max_tokens=40, sampling=HOT)
        lone = running.submit(prompts()[1], 20, EVERYTHING, matcher=Turns())
        running.wait(lone)
        matcher, other = Turns(), Turns(length=6)
        monkeypatch.setattr(DecodeBatch, "_pick", fail_once)
        beside = running.submit(prompts()[0], 40, HOT)
        ruled = running.submit(prompts()[1], 20, EVERYTHING, matcher=matcher)
        ending = running.submit(prompts()[1], 20, EVERYTHING, matcher=other)
        running.wait(beside, ruled, ending)
        assert running.engine.tally.failed == 0
    assert failures == [3]
    assert ruled.tokens == matcher.taken == lone.tokens
    assert (ending.tokens, ending.finish) == (lone.tokens[:6], "complete")
    assert beside.tokens == alone


def test_a_model_that_fails_beside_a_grammar_row_costs_it_nothing_but_time(tmp_path: Path) -> None:
    with rig(checkpoints.failing(tmp_path / "failing", token="!"), budget=256) as running:
        lone = running.submit(prompts()[1], 40, HOT, matcher=Turns())
        running.wait(lone)
        matcher = Turns()
        ruled = running.submit(prompts()[1], 40, HOT, matcher=matcher)
        running.wait_for_tokens(ruled, 5)
        culprit = running.submit([70, ord("!")])
        running.wait(ruled, culprit)
        assert running.engine.tally.failed == 1
    assert culprit.finish == "error"
    assert ruled.tokens == matcher.taken == lone.tokens


def test_a_cancelled_grammar_row_leaves_its_neighbours_alone(tiny: Tiny) -> None:
    with rig(tiny("llama")) as running:
        expected = running.run(prompts()[0], max_tokens=60)
        ruled = running.submit(prompts()[1], None, HOT, matcher=Turns())
        beside = running.submit(prompts()[0], 60)
        running.wait_for_tokens(ruled, 8)
        running.cancel(ruled)
        running.wait(ruled, beside)
    assert ruled.finish is None
    assert obeys(ruled.tokens)
    assert beside.tokens == expected


def test_masks_reach_the_last_token_of_a_vocabulary_that_is_no_multiple_of_32(tiny: Tiny) -> None:
    class Ending(Turns):
        def _allowed(self) -> list[int]:
            return [END] if len(self.taken) == 3 else DIGITS

    with rig(tiny("llama")) as running:
        row = running.submit(prompts()[0], 30, HOT, matcher=Ending())
        running.wait(row)
    assert (len(row.tokens), row.tokens[-1], row.finish) == (4, END, "stop")


@pytest.mark.parametrize("kind", ["llama", "mamba"])
def test_xgrammar_rows_of_different_grammars_obey_their_own(
    tiny: Tiny, kind: str, real: Callable[[Constraint], RowMatcher]
) -> None:
    with rig(tiny(kind)) as running:
        expected = running.run(prompts()[0], max_tokens=40)
        phone = running.submit(prompts()[1], 60, HOT, matcher=real(Constraint("regex", r"[0-9]{3}-[0-9]{4}")))
        choice = running.submit(prompts()[2], 60, HOT, matcher=real(Constraint("choice", '["apple", "banana"]')))
        schema = json.dumps({"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]})
        shaped = running.submit(
            prompts()[3], 60, HOT, matcher=real(Constraint("json_schema", schema, any_whitespace=False))
        )
        beside = running.submit(prompts()[0], 40)
        running.wait(phone, choice, shaped, beside)
    assert all(outcome.finish in ("stop", "complete") for outcome in (phone, choice, shaped))
    head, tail = text_of(phone).split("-")
    assert (len(head), len(tail)) == (3, 4)
    assert (head + tail).isdigit()
    assert text_of(choice) in ("apple", "banana")
    assert isinstance(json.loads(text_of(shaped))["b"], bool)
    assert beside.tokens == expected


def test_an_xgrammar_row_survives_a_failed_pick(
    tiny: Tiny, real: Callable[[Constraint], RowMatcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    pick = DecodeBatch._pick
    count = [0]

    def fail_twelfth(batch: DecodeBatch, *arguments: Any) -> Any:
        count[0] += 1
        if count[0] == 12:
            raise RuntimeError("this pick fails")
        return pick(batch, *arguments)

    monkeypatch.setattr(DecodeBatch, "_pick", fail_twelfth)
    with rig(tiny("llama"), budget=256) as running:
        rows = [
            running.submit(prompt, 60, HOT, matcher=real(Constraint("regex", "[a-z]{8}-[0-9]{12}")))
            for prompt in prompts()[:3]
        ]
        running.wait(*rows)
        assert running.engine.tally.failed == 0
    for row in rows:
        head, tail = text_of(row).split("-")
        assert (len(head), len(tail)) == (8, 12)
        assert tail.isdigit()


def test_a_mask_is_applied_to_its_own_row_only() -> None:
    from actors.generation.grammar.masks import Masks, apply

    masks = Masks(checkpoints.VOCABULARY)
    bits = masks.start(3)
    Turns().fill(bits[1])
    result = np.array(apply(mx.zeros((3, checkpoints.VOCABULARY)), bits))
    assert (result[[0, 2]] == 0).all()
    assert np.flatnonzero(result[1] == 0).tolist() == DIGITS
