from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.generation.messages import Delta
from actors.ids import RequestId
from routes.output import Chain, OneCall
from routes.parts import Content, Part, Splitter, joined
from routes.reasoning.harmony import HarmonySplitter
from routes.reasoning.plain import PlainSplitter
from routes.reasoning.tags import TagSplitter
from routes.row import RowAnswer
from routes.tools.families import format_named
from routes.tools.splitter import ToolSplitter
from tests.routes.harness import END, byte_tokenizer
from tests.routes.reading import hermes

tokenizer = byte_tokenizer()
NAME = RequestId("row")


class Row(RowAnswer):
    """Whose parts are all content, joined."""

    def text(self, delta: Delta) -> str:
        parts = self.feed(delta)
        assert all(isinstance(part, Content) for part in parts)
        return "".join(part.text for part in parts if isinstance(part, Content))


def row(*stops: str) -> Row:
    return Row(tokenizer.detokenizer(), stops, PlainSplitter())


def delta(text: str = "", finish: str | None = None) -> Delta:
    end = (END,) if finish == "stop" else ()
    return Delta(NAME, (*tokenizer.encode(text), *end), finish=finish)


def test_the_end_token_counts_but_has_no_text() -> None:
    answer = row()
    assert answer.text(delta("hi", "stop")) == "hi"
    assert (answer.finish, answer.completion_tokens) == ("stop", 3)


def test_an_end_token_that_is_no_special_token_has_no_text_either() -> None:
    answer = row()
    assert answer.text(Delta(NAME, tuple(tokenizer.encode("hi.")), finish="stop")) == "hi"
    assert answer.completion_tokens == 3


def test_a_row_that_reaches_its_budget_finishes_with_length() -> None:
    answer = row()
    assert answer.text(delta("abc", "length")) == "abc"
    assert (answer.finish, answer.completion_tokens) == ("length", 3)


def test_tokens_after_a_stop_string_do_not_count() -> None:
    answer = row("END")
    assert answer.text(delta("abENDcdef")) == "ab"
    assert (answer.finish, answer.completion_tokens) == ("stop", 5)
    assert answer.text(delta("more", "length")) == ""
    assert (answer.finish, answer.completion_tokens) == ("stop", 5)


def test_a_beginning_of_a_stop_string_at_the_end_is_text() -> None:
    answer = row("###")
    assert answer.text(delta("a##")) == "a"
    assert answer.text(delta("", "stop")) == "##"
    assert answer.finish == "stop"


def test_cached_tokens_come_with_the_first_delta() -> None:
    answer = row()
    answer.text(Delta(NAME, cached_tokens=12))
    answer.text(delta("x", "length"))
    assert answer.cached_tokens == 12


@given(
    st.text(alphabet="ab é😀", max_size=20),
    st.lists(st.text(alphabet="ab é", min_size=1, max_size=4), max_size=3),
    st.sampled_from(["stop", "length"]),
    st.data(),
)
def test_the_answer_does_not_depend_on_how_tokens_are_dealt_out(
    text: str, stops: list[str], finish: str, data: st.DataObject
) -> None:
    whole, dealt = row(*stops), row(*stops)
    expected = whole.text(delta(text, finish))
    tokens = delta(text, finish).tokens
    # The last token, the end token when there is one, comes with the finish.
    cuts = sorted(data.draw(st.lists(st.integers(0, max(0, len(tokens) - 1)), max_size=5)))
    pieces = [dealt.text(Delta(NAME, tokens[start:end])) for start, end in zip([0, *cuts[:-1]], cuts, strict=False)]
    pieces.append(dealt.text(Delta(NAME, tokens[cuts[-1] if cuts else 0 :], finish=finish)))
    assert "".join(pieces) == expected
    assert (dealt.finish, dealt.completion_tokens) == (whole.finish, whole.completion_tokens)


def test_tokens_of_thinking_are_counted_apart() -> None:
    answer = RowAnswer(tokenizer.detokenizer(), (), TagSplitter("<think>", "</think>", opened=True))
    for piece in ("Hm", ".", "</think>", "So", ".", "<thi"):
        answer.feed(delta(piece))
    answer.feed(delta("", "stop"))
    assert (answer.reasoning_tokens, answer.completion_tokens) == (3, 19)


WEATHER = {"weather": {"type": "object", "properties": {"city": {"type": "string"}}}}
CALLED = hermes("weather", city="Rome")
HARMONY_CALL = '<|channel|>commentary to=functions.weather<|message|>{"city": "Rome"}<|call|>'


def hermes_splitter(parallel: bool) -> Splitter:
    calls = ToolSplitter(format_named("hermes"), WEATHER, parallel)
    return Chain(TagSplitter("<think>", "</think>", opened=True), calls)


def said(answer: RowAnswer, *deltas: Delta) -> list[Part]:
    """All parts of a row, and that nothing of it is told twice."""
    parts = [part for piece in deltas for part in answer.feed(piece)]
    assert answer.feed(delta("more", "length")) == []
    return joined(parts)


@pytest.mark.parametrize(
    ("splitter", "call"),
    [
        (lambda: hermes_splitter(parallel=False), "</think>" + CALLED),
        (lambda: OneCall(HarmonySplitter(WEATHER, opened=False)), HARMONY_CALL),
    ],
    ids=["markup", "harmony"],
)
@pytest.mark.parametrize("rest", ["", "\n", CALLED, HARMONY_CALL, "END"])
def test_tokens_after_the_only_call_allowed_do_not_count(
    splitter: Callable[[], Splitter], call: str, rest: str
) -> None:
    answer = RowAnswer(tokenizer.detokenizer(), ("END",), splitter())
    answer.feed(delta(call + rest, "stop"))
    assert (answer.finish, answer.calls, answer.stop) == ("tool_calls", 1, None)
    assert answer.completion_tokens == len(tokenizer.encode(call))


@given(
    st.lists(st.sampled_from(["Hm.", "</think>", "So é", CALLED, "\n", "END", "<think>", "😀"]), max_size=6),
    st.booleans(),
    st.sampled_from(["stop", "length"]),
    st.data(),
)
def test_parts_and_counts_do_not_depend_on_how_tokens_are_dealt_out(
    words: list[str], parallel: bool, finish: str, data: st.DataObject
) -> None:
    whole, dealt = (RowAnswer(tokenizer.detokenizer(), ("END",), hermes_splitter(parallel)) for _ in range(2))
    row_ends = delta("".join(words), finish)
    expected = said(whole, row_ends)
    tokens = row_ends.tokens
    cuts = sorted(data.draw(st.lists(st.integers(0, max(0, len(tokens) - 1)), max_size=8)))
    pieces = [Delta(NAME, tokens[start:end]) for start, end in zip([0, *cuts[:-1]], cuts, strict=False)]
    pieces.append(Delta(NAME, tokens[cuts[-1] if cuts else 0 :], finish=finish))
    assert said(dealt, *pieces) == expected
    assert (dealt.finish, dealt.stop, dealt.calls) == (whole.finish, whole.stop, whole.calls)
    assert (dealt.completion_tokens, dealt.reasoning_tokens) == (whole.completion_tokens, whole.reasoning_tokens)
