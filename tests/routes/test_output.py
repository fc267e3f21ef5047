"""The splitters of one answer, and the settings that choose them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import StartError
from actors.settings import GenerationSettings
from routes.output import OneCall, OutputFormat, grammar_switch, output_format, plain_splitter
from routes.parts import Content, Part, Reasoning, Splitter, ToolCall
from routes.reasoning.families import FAMILIES, HARMONY, THINK, family_named
from routes.schema.tools import Toolbox, read_tools
from routes.tools.families import FORMATS, format_named
from tests.routes import templates
from tests.routes.harness import byte_tokenizer
from tests.routes.reading import hermes, tool

BOX = read_tools({"tools": [tool("clock")]})
ONE = read_tools({"tools": [tool("clock")], "parallel_tool_calls": False})
OUTPUT = OutputFormat(THINK, format_named("hermes"))
GPT_OSS = OutputFormat(HARMONY, format_named("tagged"))
NOON = ToolCall("clock", "{}")
HARMONY_CALL = "<|channel|>commentary to=functions.clock<|message|>{}<|call|>"


def configured(**fields: object) -> GenerationSettings:
    return GenerationSettings.model_validate(fields)


def read(splitter: Splitter, *pieces: str) -> list[Part]:
    parts = [part for piece in pieces for part in splitter.feed(piece)]
    parts += splitter.flush()
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, Content) and isinstance(last, Content):
            joined[-1] = Content(last.text + part.text)
        elif isinstance(part, Reasoning) and isinstance(last, Reasoning):
            joined[-1] = Reasoning(last.text + part.text)
        else:
            joined.append(part)
    return joined


def test_thinking_comes_first_and_its_rest_is_searched_for_calls() -> None:
    text = f"<think>\n{hermes('clock')}\n</think>\n\nNow {hermes('clock')}"
    assert read(OUTPUT.splitter(False, BOX), text) == [Reasoning(hermes("clock")), Content("Now"), NOON]


def test_without_tools_nothing_is_searched_for() -> None:
    assert read(OUTPUT.splitter(False, Toolbox()), hermes("clock")) == [Content(hermes("clock"))]
    assert read(plain_splitter(), "<think>a</think>", hermes("clock")) == [
        Content("<think>a</think>" + hermes("clock"))
    ]


def test_an_open_block_is_closed_by_the_end_of_the_text() -> None:
    assert read(OUTPUT.splitter(True, BOX), "Hm", "m.\n") == [Reasoning("Hmm.\n")]


def test_a_call_is_buffered_thinking_and_words_are_not() -> None:
    splitter = OUTPUT.splitter(False, BOX)
    buffering: list[bool] = []
    for piece in (
        "<think>a",
        "</think>",
        "b <tool",
        "_call>",
        '{"name": "clock",',
        ' "arguments": {}}',
        "</tool_call>",
    ):
        splitter.feed(piece)
        buffering.append(splitter.buffering)
    assert buffering == [False, False, False, True, True, True, False]


def test_only_an_answer_with_one_call_at_most_is_ever_done() -> None:
    for box, done in ((BOX, False), (ONE, True)):
        splitter = OUTPUT.splitter(False, box)
        splitter.feed("a")
        assert splitter.done is False
        splitter.feed(hermes("clock"))
        assert splitter.done is done


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", HARMONY_CALL, "<|start|>assistant", "<|channel|>final<|message|>b"]), max_size=6))
def test_one_call_of_harmony_is_the_beginning_of_all_up_to_the_first(pieces: list[str]) -> None:
    whole, one = read(GPT_OSS.splitter(False, BOX), *pieces), read(GPT_OSS.splitter(False, ONE), *pieces)
    assert one == (whole[: whole.index(NOON) + 1] if NOON in whole else whole)


def test_one_call_takes_nothing_after_it() -> None:
    splitter = GPT_OSS.splitter(False, ONE)
    assert isinstance(splitter, OneCall)
    assert splitter.feed(HARMONY_CALL[:20]) == []
    assert (splitter.buffering, splitter.done) == (True, False)
    assert splitter.feed(HARMONY_CALL[20:] + "<|start|>assistant" + HARMONY_CALL) == [NOON]
    assert splitter.done is True
    assert splitter.feed("<|channel|>final<|message|>more") == splitter.flush() == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_markers_of_thinking_are_always_seen_and_those_of_calls_where_there_are_tools(family: object) -> None:
    assert family in FAMILIES
    output = OutputFormat(family_named(family.name), format_named("hermes"))  # type: ignore[attr-defined]
    assert output.markers(False) == set(output.reasoning.markers)
    assert output.markers(True) == {*output.reasoning.markers, "<tool_call>", "</tool_call>"}


@pytest.mark.parametrize(
    ("template", "special", "reasoning", "calls"),
    [
        (templates.TOOLS, (), "none", "tagged"),
        (templates.THINK, (), "think", "tagged"),
        (templates.HARMONY, templates.HARMONY_TOKENS, "harmony", "tagged"),
        (None, ("<think>", "</think>"), "think", "tagged"),
        (None, (), "none", "tagged"),
    ],
)
def test_template_and_tokens_tell_the_formats(
    template: str | None, special: tuple[str, ...], reasoning: str, calls: str
) -> None:
    output = output_format(byte_tokenizer(template, special), configured())
    assert (output.reasoning.name, output.calls.name) == (reasoning, calls)


@pytest.mark.parametrize("name", FORMATS)
def test_the_settings_may_name_every_tool_format(name: str) -> None:
    assert output_format(byte_tokenizer(), configured(tool_format=name)).calls is FORMATS[name]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_settings_may_name_every_reasoning_format(family: object) -> None:
    name = family.name  # type: ignore[attr-defined]
    assert output_format(byte_tokenizer(templates.THINK), configured(reasoning_format=name)).reasoning is family


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tool_format": "nothing"}, "generation.tool_format: tool format must be one of deepseek, "),
        ({"reasoning_format": "nothing"}, "generation.reasoning_format: reasoning family must be one of harmony, "),
    ],
)
def test_a_format_that_does_not_exist_stops_the_start(fields: dict[str, str], message: str) -> None:
    with pytest.raises(StartError) as refused:
        output_format(byte_tokenizer(), configured(**fields))
    assert refused.value.message.startswith(message)


def test_the_environment_and_the_settings_may_switch_grammars_off() -> None:
    off = configured(grammar={"enabled": False})
    assert grammar_switch(configured(), {}) is None
    assert grammar_switch(configured(), {"MLX_BUN_GRAMMAR": "1"}) is None
    assert grammar_switch(off, {}) == "grammar compilation disabled by generation.grammar.enabled"
    for each in (configured(), off):
        assert grammar_switch(each, {"MLX_BUN_GRAMMAR": "0"}) == "grammar compilation disabled by MLX_BUN_GRAMMAR=0"
