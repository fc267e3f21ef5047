import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import Content, Part, Reasoning, ToolCall
from routes.reasoning.harmony import MARKERS, HarmonySplitter
from tests.routes.reasoning.pieces import cut, run, shuffled

TOOLS = {"f": {"type": "object", "required": ["x"]}, "g": {}}
THOUGHT = "<|channel|>analysis<|message|>why<|end|><|start|>assistant"
CALL = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1}<|call|>'
CALLED = ToolCall("f", '{"x":1}')

words = shuffled(
    *MARKERS, "assistant", "analysis", "final", "commentary", " to=functions.f", " to=functions.h", "to=func", "json",
    '{"x": 1}', "{'x': ", "<|", "<|e", "|>", "\n", " ", "text", "long " * 60,
)  # fmt: skip


def harmony(opened: bool = False) -> HarmonySplitter:
    return HarmonySplitter(TOOLS, opened)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (THOUGHT + "<|channel|>final<|message|>so<|return|>", [Reasoning("why"), Content("so")]),
        (THOUGHT + CALL, [Reasoning("why"), CALLED]),
        (THOUGHT + CALL.removesuffix("<|call|>"), [Reasoning("why"), CALLED]),
        (' to=functions.f<|channel|>commentary json<|message|>{"x": 1}<|call|>', [CALLED]),
        (
            "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant to=functions.f<|channel|>commentary"
            ' json<|message|>{"x": 1}<|call|>',
            [Content("Let me see."), CALLED],
        ),
        ('<|channel|>analysis to=functions.f code<|message|>{"x": 1}<|call|>', [CALLED]),
        (CALL + "<|start|>assistant" + CALL, [CALLED, CALLED]),
        ("<|channel|>commentary to=functions.g<|message|><|call|>", [ToolCall("g", "{}")]),
        ("<|channel|>final <|constrain|>json<|message|>[1]<|return|>", [Content("[1]")]),
        ("<|message|>so", [Content("so")]),
    ],
)
def test_each_message_becomes_what_its_header_says(text: str, expected: list[Part]) -> None:
    assert run(harmony(), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|channel|>analysis<|message|>why", [Reasoning("why")]),
        (THOUGHT + "<|channel|>fin", [Reasoning("why")]),
        (THOUGHT, [Reasoning("why")]),
        (THOUGHT + "<|channel|>final<|message|>so <", [Reasoning("why"), Content("so <")]),
        (CALL[: CALL.index("1") + 1], [CALLED]),
        (CALL[: CALL.index("<|message|>")], []),
        (CALL[: CALL.index("{")], []),
        (CALL[: CALL.index("1")], [Content('{"x": ')]),
        ("", []),
    ],
)
def test_a_text_that_is_cut_off_gives_what_there_is(text: str, expected: list[Part]) -> None:
    assert run(harmony(), text) == expected


def test_a_call_of_a_function_that_nobody_offered_is_content() -> None:
    assert run(harmony(), CALL.replace("functions.f", "functions.h")) == [Content('{"x": 1}')]


def test_a_call_that_cannot_be_understood_is_content() -> None:
    assert run(harmony(), CALL.replace('{"x": 1}', "[1, 2]")) == [Content("[1, 2]")]
    assert run(harmony(), CALL.replace('{"x": 1}', "{'x': 'é',}")) == [ToolCall("f", '{"x":"é"}')]


def test_a_forgotten_end_marker_does_not_glue_two_messages_together() -> None:
    text = "<|channel|>analysis<|message|>why<|channel|>final<|message|>so"
    assert run(harmony(), text) == [Reasoning("why"), Content("so")]


def test_two_messages_of_a_kind_are_set_apart() -> None:
    text = "<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>final<|message|>Then.<|return|>"
    assert run(harmony(), text) == [Content("First.\n\nThen.")]


def test_text_without_any_markup_is_content() -> None:
    assert run(harmony(), "  to be\n or not") == [Content("  to be\n or not")]
    assert run(harmony(), "<|start|>assistant" + "long " * 100) == [Content("assistant" + "long " * 100)]


def test_the_prompt_may_have_opened_the_reasoning() -> None:
    assert run(harmony(opened=True), "why<|end|><|start|>assistant<|channel|>final<|message|>so") == [
        Reasoning("why"),
        Content("so"),
    ]


def test_reasoning_and_content_stream_live_and_a_call_is_held_back() -> None:
    splitter = harmony()
    assert splitter.feed("<|channel|>analysis") == []
    assert splitter.buffering
    assert splitter.feed("<|message|>wh") == [Reasoning("wh")]
    assert not splitter.buffering
    assert splitter.feed("y<|en") == [Reasoning("y")]
    assert splitter.feed("d|>") == []
    assert not splitter.buffering
    assert splitter.feed("<|start|>assistant<|channel|>final<|message|>so") == [Content("so")]
    assert splitter.feed("<|end|><|start|>assistant" + CALL[:-11]) == []
    assert splitter.buffering
    assert splitter.feed("1}<|call|>") == [ToolCall("f", '{"x":1}')]


@given(words, st.booleans(), st.data())
def test_every_cut_of_harmony_gives_the_same_and_no_marker_is_shown(
    text: str, opened: bool, data: st.DataObject
) -> None:
    parts = run(harmony(opened), text)
    assert run(harmony(opened), *cut(text, data)) == parts
    shown = [part.text for part in parts if isinstance(part, Content | Reasoning)]
    assert not any(marker in text for marker in MARKERS for text in shown)


@given(st.text(max_size=60), st.booleans())
def test_garbage_never_raises(text: str, opened: bool) -> None:
    run(harmony(opened), text)
