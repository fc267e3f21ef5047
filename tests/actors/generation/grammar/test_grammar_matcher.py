from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.generation.grammar import tokens
from actors.generation.grammar.compiler import Compiled
from actors.generation.grammar.constraint import Constraint
from actors.generation.grammar.matcher import RowMatcher
from actors.generation.grammar.recipe import build, unanchored
from tests.support.checkpoints import byte_tokenizer

Compile = Callable[[Constraint], Compiled]


def byte_compiled(constraint: Constraint, vocabulary: int = 257) -> Compiled:
    """One token a byte; the end token is 256, ids from 257 on are padding."""
    from xgrammar import GrammarCompiler

    made = tokens.of(byte_tokenizer(), vocabulary, [256])
    return Compiled(
        build(GrammarCompiler(made.info, max_threads=1), constraint), made, constraint.after, constraint.opens, 0
    )


def allowed(matcher: RowMatcher, compiled: Compiled) -> set[int]:
    row = np.zeros(compiled.tokens.words, dtype=np.int32)
    matcher.fill(row)
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: compiled.tokens.size]
    return set(np.flatnonzero(bits).tolist())


def write(matcher: RowMatcher, compiled: Compiled, text: str) -> str | None:
    """Write byte by byte, each allowed by the mask exactly when it is accepted. The rest after a refusal."""
    data = text.encode()
    for index, byte in enumerate(data):
        if matcher.finished:
            return data[index:].decode()
        can = byte in allowed(matcher, compiled)
        if not can:
            return data[index:].decode()
        assert matcher.accept(byte)
    return None


def matches(constraint: Constraint, text: str) -> bool:
    """Whether `text` is written whole and may end there."""
    compiled = byte_compiled(constraint)
    matcher = RowMatcher(compiled)
    return write(matcher, compiled, text) is None and 256 in allowed(matcher, compiled)


def test_a_json_object_is_finished_at_its_closing_brace() -> None:
    compiled = byte_compiled(Constraint("json_schema", '{"type":"object","properties":{"a":{"type":"integer"}}}'))
    matcher = RowMatcher(compiled)
    for byte in b'{"a": 12':
        assert matcher.accept(byte)
        assert not matcher.finished
    assert matcher.accept(ord("}"))
    assert matcher.finished
    assert allowed(matcher, compiled) == {256}


def test_an_expression_that_may_go_on_is_not_finished() -> None:
    compiled = byte_compiled(Constraint("regex", "[A-Z][a-z]*"))
    matcher = RowMatcher(compiled)
    assert matcher.accept(ord("A"))
    assert not matcher.finished
    assert allowed(matcher, compiled) == {256, *range(ord("a"), ord("z") + 1)}
    assert matcher.accept(256)
    assert matcher.finished


def test_whitespace_alone_does_not_keep_an_answer_open() -> None:
    matcher = RowMatcher(byte_compiled(Constraint("ebnf", 'root ::= "x" [ \\n]*')))
    assert matcher.accept(ord("x"))
    assert matcher.finished


def test_a_choice_that_begins_another_is_not_finished() -> None:
    matcher = RowMatcher(byte_compiled(Constraint("choice", '["no", "not", "no"]')))
    assert matcher.accept(ord("n")) and matcher.accept(ord("o"))
    assert not matcher.finished
    assert matcher.accept(ord("t"))
    assert matcher.finished


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4))
def test_every_choice_can_be_written_whatever_its_letters(choices: list[str]) -> None:
    for text in choices:
        assert matches(Constraint("choice", json.dumps(choices)), text)
    assert not matches(Constraint("choice", json.dumps(choices)), "".join(choices) + "!")


@pytest.mark.parametrize(
    ("regex", "text", "expected"),
    [
        (r"^\d{3}-\w+$", "123-ab", True),
        (r"\d{3}", "12a", False),
        (r"a.c", "a☃c", True),
        (r"^a|b$", "b", True),
        (r"^(^a$|[$^]\$)$", "^$", True),
        (r"\s\S", " x", True),
        (r"", "", True),
    ],
)
def test_expressions_match_the_whole_answer(regex: str, text: str, expected: bool) -> None:
    assert matches(Constraint("regex", regex), text) is expected


@pytest.mark.parametrize(
    ("regex", "expected"),
    [("^a$", "a"), (r"\^a\$", r"\^a\$"), ("[^a$]", "[^a$]"), (r"[\]^]$", r"[\]^]"), ("(?:^a|^b)", "(?:a|b)")],
)
def test_anchors_go_where_they_say_nothing(regex: str, expected: str) -> None:
    assert unanchored(regex) == expected


@pytest.mark.parametrize("regex", ["a^", "$a", r"\(^a", "a$b"])
def test_an_anchor_that_can_never_match_is_an_error(regex: str) -> None:
    with pytest.raises(ValueError, match="can never match"):
        unanchored(regex)


@pytest.mark.parametrize("kind", ["json", "json_schema"])
def test_whitespace_cannot_run_away(kind: str) -> None:
    source = (
        '{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}}}' if kind != "json" else ""
    )
    constraint = Constraint(kind, source)  # type: ignore[arg-type]
    compiled = byte_compiled(constraint)
    for beginning in ("{", '{"a"', '{"a":', '{"a":[', '{"a":[1', '{"a":[1]'):
        matcher = RowMatcher(compiled)
        assert write(matcher, compiled, beginning) is None
        left = write(matcher, compiled, " \n" * 100)
        assert left is not None and len(left) >= 180, beginning
    assert matches(constraint, '{\n                "a": [\n    1\n]\n}')


def test_compact_json_has_no_whitespace() -> None:
    constraint = Constraint("json_schema", '{"type":"object","properties":{"a":{"type":"integer"}}}', False)
    assert matches(constraint, '{"a":1}')
    assert not matches(constraint, '{"a": 1}')
    assert matches(Constraint("json", any_whitespace=False), '{"a":[1,{"b":null}]}')
    assert not matches(Constraint("json", any_whitespace=False), '{"a": 1}')


def test_any_json_is_an_object_or_an_array_of_anything() -> None:
    for text in ('{"a": {"b": [1, -2.5e3, "x", true, null]}}', "[]", "{}", '["\\u00e9"]'):
        assert matches(Constraint("json"), text)
    for text in ("1", "{a: 1}", "[1,]", '"x"'):
        assert not matches(Constraint("json"), text)


def test_only_a_lax_schema_lets_other_properties_in() -> None:
    source = '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}'
    assert not matches(Constraint("json_schema", source), '{"a": 1, "b": 2}')
    assert matches(Constraint("json_schema", source, strict=False), '{"a": 1, "b": 2}')


def test_padded_and_special_tokens_are_never_allowed() -> None:
    compiled = byte_compiled(Constraint("regex", "(.|\n)*"), vocabulary=300)
    matcher = RowMatcher(compiled)
    can = allowed(matcher, compiled)
    assert 256 in can
    assert not can & set(range(257, 300))
    assert ord("a") in can


def test_a_vocabulary_smaller_than_the_tokenizers_is_served() -> None:
    made = tokens.of(byte_tokenizer(), 200, [100])
    assert (made.size, made.words, made.stops) == (200, 7, {100})
    with pytest.raises(ValueError, match="no token that ends"):
        tokens.of(byte_tokenizer(), 200, [256])


def test_a_byte_that_no_token_holds_leaves_only_the_end() -> None:
    from xgrammar import GrammarCompiler

    made = tokens.of(byte_tokenizer(), 200, [100])
    grammar = build(GrammarCompiler(made.info, max_threads=1), Constraint("choice", '["a€"]'))
    compiled = Compiled(grammar, made, None, None, 0)
    matcher = RowMatcher(compiled)
    assert matcher.accept(ord("a"))
    assert allowed(matcher, compiled) == {100}
    assert matcher.accept(100)
    assert matcher.finished


def test_a_token_that_the_grammar_forbids_is_not_accepted(capfd: pytest.CaptureFixture[str]) -> None:
    matcher = RowMatcher(byte_compiled(Constraint("regex", "a")))
    assert not matcher.accept(ord("b"))
    assert matcher.problem == "a token that the grammar forbids"
    assert not RowMatcher(byte_compiled(Constraint("regex", "a"))).accept(9999)


def test_special_tokens_of_the_starter_cannot_be_written_into_a_string(compiled: Compile) -> None:
    grammar = compiled(Constraint("regex", ".*"))
    can = allowed(RowMatcher(grammar), grammar)
    special = set(grammar.tokens.special.values())
    assert len(special) >= 3
    assert can & special == set(grammar.tokens.stops) & special
    assert len(can) > 48000


# After a thinking block.


def test_the_grammar_begins_after_a_closing_text_of_several_tokens() -> None:
    compiled = byte_compiled(Constraint("choice", '["yes"]', after="</think>"))
    matcher = RowMatcher(compiled)
    for byte in b"hm < </thin</think":
        assert allowed(matcher, compiled) == set(range(256))
        assert matcher.accept(byte)
    assert matcher.accept(ord(">"))
    assert allowed(matcher, compiled) == {ord("y")}
    assert not matcher.finished
    assert write(matcher, compiled, "yes") is None
    assert matcher.finished


def test_the_grammar_begins_after_a_closing_text_of_one_special_token() -> None:
    from xgrammar import GrammarCompiler

    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["</think>"]})  # type: ignore[dict-item]
    closing = tokenizer.convert_tokens_to_ids("</think>")
    made = tokens.of(tokenizer, 300, [256])
    grammar = build(GrammarCompiler(made.info, max_threads=1), Constraint("regex", "a+"))
    compiled = Compiled(grammar, made, "</think>", None, 0)
    matcher = RowMatcher(compiled)
    assert closing in allowed(matcher, compiled) and 256 not in allowed(matcher, compiled)
    for token in (*b"b</thin", closing):
        assert matcher.accept(token)
    assert allowed(matcher, compiled) == {ord("a")}


def thinking_compiled(constraint: Constraint) -> tuple[Compiled, int, int]:
    """Over bytes, `<think>` and `</think>`; with the ids of the two."""
    from xgrammar import GrammarCompiler

    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<think>", "</think>"]})  # type: ignore[dict-item]
    made = tokens.of(tokenizer, 300, [256])
    grammar = build(GrammarCompiler(made.info, max_threads=1), constraint)
    opening, closing = made.special["<think>"], made.special["</think>"]
    return Compiled(grammar, made, constraint.after, constraint.opens, 0), opening, closing


OPTIONAL = Constraint("regex", "a+", after="</think>", opens="<think>")


def test_a_model_that_opens_a_block_itself_thinks_freely_and_is_bound_after_it() -> None:
    compiled, opening, closing = thinking_compiled(OPTIONAL)
    matcher = RowMatcher(compiled)
    assert allowed(matcher, compiled) == {ord("a"), opening}
    assert matcher.accept(opening)
    assert ord("z") in allowed(matcher, compiled)
    for token in (*b"zzz", closing):
        assert matcher.accept(token)
    assert allowed(matcher, compiled) == {ord("a")}


def test_a_model_that_opens_no_block_is_bound_at_once_and_cannot_open_one_later() -> None:
    compiled, opening, _ = thinking_compiled(OPTIONAL)
    matcher = RowMatcher(compiled)
    assert matcher.accept(ord("a"))
    assert allowed(matcher, compiled) == {ord("a"), 256}
    assert not matcher.accept(opening)


def test_an_opening_text_of_several_tokens_does_not_count() -> None:
    compiled = byte_compiled(Constraint("regex", "a+", after="</think>", opens="<think>"))
    assert allowed(RowMatcher(compiled), compiled) == {ord("a")}


def test_no_token_runs_across_the_closing_text(compiled: Compile) -> None:
    grammar = compiled(Constraint("regex", "[0-9]+", after="</"))
    texts = grammar.tokens.texts
    crossing = texts.index(b"></")
    assert crossing in allowed(RowMatcher(grammar), grammar)
    across = [token for token, text in enumerate(texts) if b"</" in text and text.partition(b"</")[2].strip()]
    matcher = RowMatcher(grammar)
    assert not allowed(matcher, grammar) & set(across)
    assert matcher.accept(texts.index(b"<"))
    slashes = {token for token in allowed(matcher, grammar) if texts[token].startswith(b"/")}
    assert {texts[token].strip() for token in slashes} == {b"/"}


# The guard against grammars that grow slow.


def test_a_grammar_that_grows_slow_fails_its_row_and_does_not_hang() -> None:
    compiled = byte_compiled(Constraint("ebnf", 'root ::= x x x x x x\nx ::= x x | "a" | "aa" | [a-z]* | ""'))
    matcher = RowMatcher(compiled)
    for _ in range(5000):
        allowed(matcher, compiled)
        if not matcher.accept(ord("a")):
            break
    assert matcher.problem == "the grammar is too ambiguous to follow in time"
    assert allowed(matcher, compiled) == {256}
