"""The budget of a thinking block, token by token: one a byte, 256 ends an answer, 257 and 258 are marks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken

from actors.generation.grammar import tokens
from actors.generation.grammar.bounded import BoundedThinking, following
from actors.generation.grammar.compiler import Compiled
from actors.generation.grammar.constraint import Budget, Constraint
from actors.generation.grammar.recipe import build
from actors.generation.grammar.tokens import Tokens
from tests.support.checkpoints import byte_tokenizer

OPEN, CLOSE = 257, 258
SIZE = 259
MARKS = ("<think>", "</think>")
SPELLED = Budget(3, "[[", "]]", (ord("]"), ord("]")), opened=True, anywhere=False)
MARKED = Budget(3, *MARKS, (ord("\n"), CLOSE), opened=False, anywhere=False)


@pytest.fixture(scope="module", params=[True, False], ids=["special", "added"])
def vocabulary(request: pytest.FixtureRequest) -> Tokens:
    tokenizer: Any = byte_tokenizer()
    for mark in MARKS:
        tokenizer.add_tokens(AddedToken(mark, special=request.param, normalized=False))
    return tokens.of(tokenizer, SIZE, [256])


def forced(row: BoundedThinking, known: Tokens) -> list[int] | None:
    """The tokens that may come next; None for all."""
    bits = np.full(known.words, -1, dtype=np.int32)
    row.fill(bits)
    allowed = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")[:SIZE]).tolist()
    return None if len(allowed) == SIZE else allowed


def drive(row: BoundedThinking, known: Tokens, wished: list[int]) -> list[int]:
    """What is written when the model wishes for this. As in the engine, masks are made only where they bind, and
    whether they do is asked while a token is still unread."""
    written: list[int] = []
    while wished:
        bound, unread = row.binding, written[-1:]
        if bound:
            assert all(row.accept(token) for token in unread)
        allowed = forced(row, known) if bound else None
        written.append(wished.pop(0) if allowed is None or wished[0] in allowed else allowed[0])
        if not bound:
            assert all(row.accept(token) for token in unread)
    assert row.accept(written[-1])
    return written


def test_a_spent_budget_closes_the_block_that_the_prompt_has_opened(vocabulary: Tokens) -> None:
    row = BoundedThinking(vocabulary, SPELLED, None)
    assert drive(row, vocabulary, list(b"abcdefgh")) == list(b"abc]]defgh")
    assert not row.binding


def test_a_block_that_the_model_opens_is_counted_from_there(vocabulary: Tokens) -> None:
    row = BoundedThinking(vocabulary, MARKED, None)
    assert drive(row, vocabulary, [10, OPEN, *b"abcdefgh"]) == [10, OPEN, *b"abc\n", CLOSE, *b"defgh"]


def test_who_closes_in_time_is_left_alone(vocabulary: Tokens) -> None:
    row = BoundedThinking(vocabulary, MARKED, None)
    wish = [OPEN, *b"ab", CLOSE, *b"an answer of some length"]
    assert drive(row, vocabulary, list(wish)) == wish
    assert not row.binding


def test_an_answer_without_thinking_is_never_bound(vocabulary: Tokens) -> None:
    row = BoundedThinking(vocabulary, MARKED, None)
    assert not row.binding
    assert drive(row, vocabulary, [*b"so ", OPEN, *b"abcdef"]) == [*b"so ", OPEN, *b"abcdef"]
    assert not row.binding


def test_a_second_block_has_what_the_first_one_left(vocabulary: Tokens) -> None:
    row = BoundedThinking(vocabulary, MARKED, None)
    wish = [OPEN, *b"ab", CLOSE, 10, OPEN, *b"cdef"]
    assert drive(row, vocabulary, wish) == [OPEN, *b"ab", CLOSE, 10, OPEN, *b"c\n", CLOSE, *b"def"]


def test_a_block_behind_a_spent_budget_is_closed_at_once(vocabulary: Tokens) -> None:
    row = BoundedThinking(vocabulary, replace(MARKED, tokens=1), None)
    wish = [OPEN, *b"ab", OPEN, *b"cd"]
    assert drive(row, vocabulary, wish)[:4] == [OPEN, ord("a"), 10, CLOSE]
    row = BoundedThinking(vocabulary, replace(MARKED, tokens=1), None)
    for token in (OPEN, ord("a"), 10, CLOSE, OPEN):
        assert row.accept(token)
    assert forced(row, vocabulary) == [10]


def test_blocks_in_the_midst_of_an_answer_count_where_they_may_be(vocabulary: Tokens) -> None:
    row = BoundedThinking(vocabulary, replace(MARKED, anywhere=True), None)
    wish = [*b"so ", OPEN, *b"abcdef"]
    assert drive(row, vocabulary, wish) == [*b"so ", OPEN, *b"abc\n", CLOSE, *b"def"]


def test_a_closing_text_that_is_half_written_is_completed(vocabulary: Tokens) -> None:
    row = BoundedThinking(vocabulary, SPELLED, None)
    written = drive(row, vocabulary, list(b"ab]cd"))
    assert written[:4] == list(b"ab]]")
    assert bytes(written).partition(b"]]")[2].strip(b"]") == b"cd"


def test_the_grammar_goes_on_behind_the_closed_block(vocabulary: Tokens) -> None:
    from xgrammar import GrammarCompiler

    grammar = build(GrammarCompiler(vocabulary.info, max_threads=1), Constraint("choice", '["yes","no"]'))
    row = following(Compiled(grammar, vocabulary, SPELLED.end, None, 0, SPELLED))
    assert isinstance(row, BoundedThinking)
    assert drive(row, vocabulary, list(b"abcyes")) == list(b"abc]]yes")
    assert row.binding


def test_a_grammar_without_room_for_thinking_wins(vocabulary: Tokens) -> None:
    from xgrammar import GrammarCompiler

    grammar = build(GrammarCompiler(vocabulary.info, max_threads=1), Constraint("choice", '["yes please"]'))
    row = following(Compiled(grammar, vocabulary, None, None, 0, SPELLED))
    assert isinstance(row, BoundedThinking)
    assert drive(row, vocabulary, list(b"yes please")) == list(b"yes please")
    assert row.finished


def test_without_a_budget_and_a_grammar_there_is_nothing_to_follow(vocabulary: Tokens) -> None:
    assert following(Compiled(None, vocabulary, None, None, 0)) is None
