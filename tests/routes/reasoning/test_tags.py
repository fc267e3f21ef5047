import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import Content, Part, Reasoning
from routes.reasoning.tags import TagSplitter
from tests.routes.reasoning.pieces import cut, run, shuffled

texts = shuffled("<think>", "</think>", "<thi", "nk>", "</th", "<", "\n", "\r\n", " ", "a", "b c") | st.text(
    max_size=30
)


def think(opened: bool = False, anywhere: bool = False) -> TagSplitter:
    return TagSplitter("<think>", "</think>", opened, anywhere)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>\nwhy\n</think>\n\nso", [Reasoning("why"), Content("so")]),
        ("\n <think>why</think>so", [Reasoning("why"), Content("so")]),
        ("<think>\n\n</think>\n\nso", [Content("so")]),
        ("<think></think>", []),
        ("<think>a\n\nb</think>  so", [Reasoning("a\n\nb"), Content("  so")]),
        ("<think>a</think>\n \n    code\n", [Reasoning("a"), Content("    code\n")]),
        ("<think>a</think>\n\n", [Reasoning("a")]),
        ("<think>a</think>\n<think>b</think>c", [Reasoning("ab"), Content("c")]),
        ("<think>a <think> b</think>c", [Reasoning("a <think> b"), Content("c")]),
    ],
)
def test_a_block_at_the_start_is_reasoning_and_its_framing_belongs_to_nobody(text: str, expected: list[Part]) -> None:
    assert run(think(), text) == expected


@pytest.mark.parametrize(
    "text",
    ["The tag <think> opens it.", "a</think>b", "</think>b", "<thinking>x</thinking>", "  indented\n\n", "<thi", " \n"],
)
def test_tags_elsewhere_are_content(text: str) -> None:
    assert run(think(), text) == [Content(text)]


def test_a_tag_after_content_is_content_though_a_block_came_before() -> None:
    assert run(think(), "<think>a</think>b <think>c</think>") == [Reasoning("a"), Content("b <think>c</think>")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("why\n</think>\n\nso", [Reasoning("why"), Content("so")]),
        ("\nwhy", [Reasoning("why")]),
        ("</think>so", [Content("so")]),
        ("\n<think>\nwhy</think>so", [Reasoning("why"), Content("so")]),
        ("<thi", [Reasoning("<thi")]),
    ],
)
def test_a_block_may_have_been_opened_by_the_prompt(text: str, expected: list[Part]) -> None:
    assert run(think(opened=True), text) == expected


@pytest.mark.parametrize("rest", ["why", "why</thin", "why\n\n", "why </think"])
def test_a_block_that_is_never_closed_is_reasoning_as_it_is(rest: str) -> None:
    assert run(think(), "<think>\n" + rest) == [Reasoning(rest)]


def test_reasoning_streams_live_and_only_a_possible_end_is_held_back() -> None:
    splitter = think()
    assert splitter.feed("<thi") == []
    assert splitter.buffering
    assert splitter.feed("nk>\nso it") == [Reasoning("so it")]
    assert not splitter.buffering
    assert splitter.feed(" is\n") == [Reasoning(" is")]
    assert splitter.buffering
    assert splitter.feed("then </") == [Reasoning("\nthen ")]
    assert splitter.feed("b>") == [Reasoning("</b>")]
    assert splitter.feed("\n</think>\n") == []
    assert splitter.feed("yes <think") == [Content("yes <think")]
    assert not splitter.buffering


@given(texts, st.booleans(), st.booleans(), st.data())
def test_every_cut_gives_what_the_whole_text_gives(
    text: str, opened: bool, anywhere: bool, data: st.DataObject
) -> None:
    assert run(think(opened, anywhere), *cut(text, data)) == run(think(opened, anywhere), text)


@given(st.text(alphabet="<think/> \nab"))
def test_an_answer_that_does_not_begin_with_the_tag_is_shown_as_it_is(text: str) -> None:
    if not text.lstrip().startswith("<think>"):
        assert run(think(), text) == ([Content(text)] if text else [])
