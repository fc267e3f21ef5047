import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import Content, Part, Reasoning
from routes.reasoning.channels import ChannelSplitter
from tests.routes.reasoning.pieces import cut, run, shuffled

texts = shuffled("<|channel>thought", "<|channel>", "thought", "<channel|>", "<|chan", "<chan", "<", "\n", " ", "a")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|channel>thought\nwhy\n<channel|>so", [Reasoning("why"), Content("so")]),
        ("<|channel>thought\n<channel|>so", [Content("so")]),
        ("so\n<|channel>thought\nwhy<channel|>\nand", [Content("so\n"), Reasoning("why"), Content("and")]),
        ("<|channel>thought\nwhy", [Reasoning("why")]),
        ("<|channel>thou", [Content("<|channel>thou")]),
        ("<|channel>other\nx<channel|>", [Content("<|channel>other\nx<channel|>")]),
        ("so<channel|>", [Content("so<channel|>")]),
    ],
)
def test_thought_channels_are_reasoning_wherever_they_stand(text: str, expected: list[Part]) -> None:
    assert run(ChannelSplitter(False), text) == expected


def test_a_thought_may_have_been_opened_by_the_prompt() -> None:
    assert run(ChannelSplitter(True), "why\n<channel|>so") == [Reasoning("why"), Content("so")]


def test_content_is_held_back_only_where_a_thought_may_begin() -> None:
    splitter = ChannelSplitter(False)
    assert splitter.feed("a <|channel>th") == [Content("a ")]
    assert splitter.buffering
    assert splitter.feed("e b") == [Content("<|channel>the b")]
    assert not splitter.buffering


@given(texts, st.booleans(), st.data())
def test_every_cut_of_a_text_with_channels_gives_the_same(text: str, opened: bool, data: st.DataObject) -> None:
    assert run(ChannelSplitter(opened), *cut(text, data)) == run(ChannelSplitter(opened), text)
