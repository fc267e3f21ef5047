"""Constraints that make a model call a tool."""

from __future__ import annotations

import json
from typing import Any

import pytest
import xgrammar

from actors.errors import InvalidRequest
from actors.generation.grammar.constraint import Constraint
from actors.generation.grammar.recipe import build
from routes.arguments import BRACKETS, ELEMENTS, MOST_WHITESPACE
from routes.enforcement import FRAMES, Frame, enforced, frame_of
from routes.parts import ToolCall
from routes.reasoning.families import HARMONY
from routes.schema.tools import Toolbox, read_tools
from routes.tools.families import FORMATS, format_named
from tests.routes.reading import tool
from tests.routes.tools.cutting import split

WEATHER = tool("weather", city="string", days="integer")
SCHEMA = WEATHER["function"]["parameters"]
CLOCK = {"type": "function", "function": {"name": "clock"}}
HERMES = FRAMES["hermes"]
BODIES: dict[Any, str] = {
    "json": '{"city": "Paris", "days": 2}',
    "qwen_xml": "<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n</parameter>",
    "glm_xml": "<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n",
    "minimax_xml": '<parameter name="city">Paris</parameter>\n<parameter name="days">2</parameter>\n',
    "deepseek_xml": '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n',
    ELEMENTS["minicpm"]: '<param name="city">Paris</param><param name="days">2</param>',
    ELEMENTS["muse_spark"]: '<atem:parameter name="city">Paris</atem:parameter>\n'
    '<atem:parameter name="days">2</atem:parameter>\n',
    ELEMENTS["longcat"]: "<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>Paris</longcat_arg_value>\n"
    "<longcat_arg_key>days</longcat_arg_key>\n<longcat_arg_value>2</longcat_arg_value>\n",
    BRACKETS["function_gemma"]: "{city:<escape>Paris<escape>,days:2}",
    BRACKETS["pythonic"]: '(city="Paris", days=2)',
    "gemma": '{city:<|"|>Paris<|"|>,days:2}',
}
DIALECTS = {"mistral_list": "mistral", "deepseek_fenced": "deepseek", "gemma4": "gemma4"}
ASKED = '{"city":"Paris","days":2}'


def box(*tools: Any, **fields: Any) -> Toolbox:
    return read_tools({"tools": list(tools), **fields})


def tag(constraint: Constraint | None) -> dict[str, Any]:
    assert constraint is not None
    assert constraint.kind == "structural"
    document = json.loads(constraint.source)
    assert document["type"] == "structural_tag"
    return document["format"]


def text_of(frame: Frame, *names: str) -> str:
    calls = [frame.begin.replace("NAME", name) + BODIES[frame.style] + frame.end for name in names or ["weather"]]
    return frame.around[0] + (frame.separator or "").join(calls) + frame.around[1]


@pytest.fixture(scope="module")
def compiler() -> xgrammar.GrammarCompiler:
    """For a vocabulary of all bytes and an end token."""
    vocabulary = [bytes([value]) for value in range(256)] + [b"</s>"]
    info = xgrammar.TokenizerInfo(
        vocabulary, vocab_type=xgrammar.VocabType.RAW, vocab_size=len(vocabulary), stop_token_ids=[256]
    )
    return xgrammar.GrammarCompiler(info)


def accepts(compiler: xgrammar.GrammarCompiler, constraint: Constraint | None, text: str) -> bool:
    assert constraint is not None
    matcher = xgrammar.GrammarMatcher(compiler.compile_structural_tag(constraint.source))
    return all(matcher.accept_token(byte) for byte in text.encode()) and (
        matcher.is_terminated() or matcher.accept_token(256)
    )


@pytest.mark.parametrize("name", FRAMES)
def test_every_frame_is_what_xgrammar_writes_and_what_its_family_reads(
    name: str, compiler: xgrammar.GrammarCompiler
) -> None:
    frame = FRAMES[name]
    text = text_of(frame)
    assert accepts(compiler, enforced(box(WEATHER, CLOCK, tool_choice="required"), None, frame), text)
    tools = box(WEATHER, CLOCK).schemas
    if name == "harmony":
        splitter = HARMONY.splitter(False, tools)
        parts = [*splitter.feed(text), *splitter.flush()]
    else:
        parts = split([text], format_named(DIALECTS.get(name, name)), tools)
    assert parts == [ToolCall("weather", ASKED)]


@pytest.mark.parametrize("name", [name for name, frame in FRAMES.items() if frame.separator is not None])
def test_frames_with_a_separator_hold_several_calls(name: str, compiler: xgrammar.GrammarCompiler) -> None:
    frame = FRAMES[name]
    text = text_of(frame, "weather", "weather")
    assert accepts(compiler, enforced(box(WEATHER, tool_choice="required"), None, frame), text)
    one = enforced(box(WEATHER, tool_choice="required", parallel_tool_calls=False), None, frame)
    assert accepts(compiler, one, text_of(frame))
    assert not accepts(compiler, one, text)
    parts = split([text], format_named(DIALECTS.get(name, name)), box(WEATHER).schemas)
    assert parts == [ToolCall("weather", ASKED)] * 2


def test_a_required_call_is_nothing_but_calls(compiler: xgrammar.GrammarCompiler) -> None:
    constraint = enforced(box(WEATHER, tool_choice="required"), None, HERMES)
    for text in ("", "Hello", '{"a": 1}', text_of(HERMES, "clock"), text_of(HERMES)[:-1], "x" + text_of(HERMES)):
        assert not accepts(compiler, constraint, text)


def test_a_named_function_is_the_only_tag_and_is_called_once() -> None:
    named = {"type": "function", "function": {"name": "clock"}}
    assert tag(enforced(box(WEATHER, CLOCK, tool_choice=named), None, HERMES)) == {
        "type": "tags_with_separator",
        "tags": [
            {
                "type": "tag",
                "begin": '<tool_call>\n{"name": "clock", "arguments": ',
                "content": {
                    "type": "json_schema",
                    "json_schema": {"type": "object"},
                    "style": "json",
                    "max_whitespace_cnt": MOST_WHITESPACE,
                },
                "end": "}\n</tool_call>",
            }
        ],
        "separator": "\n",
        "at_least_one": True,
        "stop_after_first": True,
    }


@pytest.mark.parametrize(
    ("fields", "one"), [({}, False), ({"parallel_tool_calls": True}, False), ({"parallel_tool_calls": False}, True)]
)
def test_required_offers_every_function(fields: dict[str, Any], one: bool) -> None:
    calls = tag(enforced(box(WEATHER, CLOCK, tool_choice="required", **fields), None, HERMES))
    assert [item["content"]["json_schema"] for item in calls["tags"]] == [SCHEMA, {"type": "object"}]
    assert calls["stop_after_first"] is one


def test_what_needs_no_enforcement_is_left_as_it_is() -> None:
    wish = Constraint("regex", "a+")
    assert enforced(box(), None, HERMES) is None
    assert enforced(box(), wish, HERMES) is wish
    assert enforced(box(WEATHER), None, HERMES) is None
    assert enforced(box(WEATHER, tool_choice="none"), wish, HERMES) is wish


@pytest.mark.parametrize("frame", ["hermes", "mistral_list", "llama", "kimi"])
@pytest.mark.parametrize("name", ['say "hi"', "NAME", "a\\b", "né"])
def test_a_name_is_written_as_its_place_asks(name: str, frame: str) -> None:
    constraint = enforced(box(tool(name), tool_choice="required"), None, FRAMES[frame])
    written = tag(constraint)
    calls = written["elements"][1] if written["type"] == "sequence" else written
    begin = calls["tags"][0]["begin"]
    if frame == "kimi":
        assert begin == FRAMES[frame].begin.replace("NAME", name)
    else:
        assert json.loads(begin[begin.index('{"name"') :] + "{}}") == {
            "name": name,
            "parameters" if frame == "llama" else "arguments": {},
        }


def test_tools_too_large_to_be_enforced_are_refused_and_served_otherwise() -> None:
    large = [tool(f"f{index}", **{"x" * 1000: "string"}) for index in range(1024)]
    larger = [tool(f"f{index}", **{"x" * 2500: "string"}) for index in range(1024)]
    assert enforced(box(*large, tool_choice="required"), None, HERMES) is not None
    assert enforced(box(*larger), None, HERMES) is None
    with pytest.raises(InvalidRequest, match=r"^tools must have at most 2097152 characters where their calls are enf"):
        enforced(box(*larger, tool_choice="required"), None, HERMES)


@pytest.mark.parametrize(
    ("constraint", "right", "wrong"),
    [
        (Constraint("json"), ["[1]", '{"a": [true]}'], ["1", "yes"]),
        (Constraint("json_schema", '{"type": "array", "items": {"type": "integer"}}'), ["[1, 2]"], ['["a"]', "{}"]),
        (Constraint("regex", "a+b"), ["aab"], ["b"]),
        (Constraint("choice", '["yes", "n\\"o"]'), ["yes", 'n"o'], ["no", "yesyes"]),
        (Constraint("ebnf", 'root ::= "x" | "y"'), ["x", "y"], ["xy"]),
    ],
    ids=lambda value: value.kind if isinstance(value, Constraint) else "",
)
def test_an_answer_that_may_be_a_call_is_constrained_or_a_call(
    constraint: Constraint, right: list[str], wrong: list[str], compiler: xgrammar.GrammarCompiler
) -> None:
    both = enforced(box(WEATHER), constraint, HERMES)
    assert tag(both)["type"] == "or"
    assert [accepts(compiler, both, text) for text in [*right, text_of(HERMES)]] == [True] * (len(right) + 1)
    assert [accepts(compiler, both, text) for text in [*wrong, text_of(HERMES, "nobody")]] == [False] * (len(wrong) + 1)


@pytest.mark.parametrize(
    ("any_whitespace", "strict", "right", "wrong"),
    [
        (True, True, ['{"a": 1}', '{"a":1}'], ['{"a": 1, "b": 2}']),
        (False, True, ['{"a":1}'], ['{"a": 1}', '{"a":1,"b":2}']),
        (True, False, ['{"a": 1}', '{"a": 1, "b": 2}'], ['{"b": 2}']),
        (False, False, ['{"a":1,"b":2}'], ['{"a": 1}']),
    ],
)
def test_a_schema_beside_tools_keeps_its_switches(
    any_whitespace: bool, strict: bool, right: list[str], wrong: list[str], compiler: xgrammar.GrammarCompiler
) -> None:
    schema = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
    both = enforced(box(WEATHER), Constraint("json_schema", schema, any_whitespace, strict), HERMES)
    assert both is not None

    def fits(text: str) -> bool:
        matcher = xgrammar.GrammarMatcher(build(compiler, both))
        return all(matcher.accept_token(byte) for byte in text.encode()) and (
            matcher.is_terminated() or matcher.accept_token(256)
        )

    assert [fits(text) for text in [*right, text_of(HERMES)]] == [True] * (len(right) + 1)
    assert [fits(text) for text in wrong] == [False] * len(wrong)


def test_a_required_call_wins_over_the_form_of_the_content() -> None:
    required = box(WEATHER, tool_choice="required")
    assert enforced(required, Constraint("json"), HERMES) == enforced(required, None, HERMES)


def test_the_end_of_thinking_is_kept() -> None:
    both = enforced(box(WEATHER), Constraint("json", after="</think>"), HERMES)
    assert both is not None
    assert both.after == "</think>"


ENFORCEABLE = {
    **{name: name for name in ("hermes", "qwen_xml", "glm", "minimax", "gemma4", "llama", "kimi", "deepseek_dsml")},
    **{name: name for name in ("minicpm", "longcat", "muse_spark", "function_gemma", "pythonic", "lfm2")},
    "tagged": "hermes",
    "mistral": "mistral_list",
    "deepseek": "deepseek",
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_its_frame(name: str) -> None:
    assert frame_of(name, "", frozenset()) == FRAMES[ENFORCEABLE[name]]


@pytest.mark.parametrize(
    ("name", "template", "tokens", "frame"),
    [
        ("tagged", "<tool_call> <function=x>", (), "qwen_xml"),
        ("tagged", "<tool_call> <arg_key>", (), "glm"),
        ("tagged", "<tool_call>", (), "hermes"),
        ("tagged", '<function name="', (), "minicpm"),
        ("mistral", "", ("[TOOL_CALLS]", "[ARGS]"), "mistral"),
        ("mistral", "", ("[TOOL_CALLS]",), "mistral_list"),
        ("deepseek", "```json", (), "deepseek_fenced"),
        ("harmony", "", (), "harmony"),
    ],
)
def test_templates_and_tokens_tell_dialects_apart(
    name: str, template: str, tokens: tuple[str, ...], frame: str
) -> None:
    assert frame_of(name, template, frozenset(tokens)) == FRAMES[frame]


# Harmony: every part of an answer is a message on a channel.

THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
FINAL = "<|channel|>final<|message|>"
NUMBER = Constraint("regex", "[0-9]")


def test_on_channels_a_form_binds_the_final_message_with_or_without_thinking(
    compiler: xgrammar.GrammarCompiler,
) -> None:
    constraint = enforced(Toolbox(), NUMBER, FRAMES["harmony"], channels=True)
    for text in (f"{FINAL}7", f"{THOUGHT}{FINAL}7"):
        assert accepts(compiler, constraint, text)
    for text in ("7", f"{FINAL}x", f"{THOUGHT}7", f"{THOUGHT}{THOUGHT}{FINAL}7"):
        assert not accepts(compiler, constraint, text)


def test_on_channels_a_required_call_may_be_thought_about(compiler: xgrammar.GrammarCompiler) -> None:
    frame = FRAMES["harmony"]
    call = text_of(frame)
    required = enforced(box(WEATHER, tool_choice="required"), None, frame, channels=True)
    assert accepts(compiler, required, call)
    assert accepts(compiler, required, THOUGHT + call)
    assert not accepts(compiler, required, f"{FINAL}7")
    either = enforced(box(WEATHER), NUMBER, frame, channels=True)
    for text in (call, THOUGHT + call, f"{THOUGHT}{FINAL}7"):
        assert accepts(compiler, either, text)


def test_on_channels_an_answer_without_a_form_is_free() -> None:
    assert enforced(Toolbox(), None, FRAMES["harmony"], channels=True) is None
    assert enforced(box(WEATHER), None, FRAMES["harmony"], channels=True) is None
