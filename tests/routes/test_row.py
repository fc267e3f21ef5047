from hypothesis import given
from hypothesis import strategies as st

from actors.generation.messages import Delta
from actors.ids import RequestId
from routes.parts import Content
from routes.reasoning.plain import PlainSplitter
from routes.reasoning.tags import TagSplitter
from routes.row import RowAnswer
from tests.routes.harness import END, byte_tokenizer

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
