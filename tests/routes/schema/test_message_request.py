"""What the fields of a Messages request come to."""

from __future__ import annotations

from typing import Any

import pytest

from actors.errors import InvalidRequest
from routes.affinity import LONGEST
from routes.schema.message_request import MessageRequest, read_message_request
from routes.schema.tools import Toolbox

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"name": "weather", "description": "Forecast.", "input_schema": SCHEMA}
THINKS = {"type": "thinking", "thinking": "Hm.", "signature": ""}


def read(template: str = "", headers: dict[str, str] | None = None, **fields: Any) -> MessageRequest:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    return read_message_request(body, headers or {}, "org/tiny", template)


def refusal(**fields: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        read(**fields)
    return refused.value.message


@pytest.mark.parametrize(
    ("thinking", "config", "switch", "effort", "budget", "shown"),
    [
        (None, None, None, None, None, True),
        (None, {"effort": "low"}, None, "low", None, True),
        ({"type": "disabled"}, {"effort": "max"}, False, "xhigh", None, True),
        ({"type": "enabled", "budget_tokens": 9}, None, True, None, 9, True),
        ({"type": "enabled", "budget_tokens": 9, "display": "omitted"}, None, True, None, 9, False),
        ({"type": "adaptive", "display": "summarized"}, {"effort": "max"}, True, "xhigh", None, True),
        ({"type": "between_tools"}, None, True, None, None, True),
    ],
)
def test_thinking_is_the_switch_the_depth_and_the_budget(
    thinking: object, config: object, switch: bool | None, effort: str | None, budget: int | None, shown: bool
) -> None:
    request = read(thinking=thinking, output_config=config)
    assert request.chat.template_variables.get("enable_thinking") is switch
    assert (request.chat.reasoning_effort, request.chat.thinking_tokens) == (effort, budget)
    assert request.shows_thinking is shown


def test_the_template_s_own_switch_wins() -> None:
    given = {"enable_thinking": False}
    request = read(thinking={"type": "adaptive"}, chat_template_kwargs=given)
    assert request.chat.template_variables == given


@pytest.mark.parametrize(
    ("template", "variables", "kept"),
    [
        ("", {}, False),
        ("{{ preserve_thinking }}", {}, True),
        ("{{ preserve_thinking }}", {"preserve_thinking": False}, False),
        ("", {"preserve_thinking": True}, False),
    ],
)
def test_only_templates_that_want_it_get_old_thinking(template: str, variables: object, kept: bool) -> None:
    turn = {"role": "assistant", "content": [THINKS]}
    request = read(template, messages=[turn], chat_template_kwargs=variables)
    assert ("reasoning_content" in request.chat.messages[0]) is kept


def test_tools_become_functions_and_other_peoples_tools_are_dropped() -> None:
    foreign = [{"type": "web_search_20250305", "name": "web_search"}, {"type": "mcp_toolset"}]
    box = read(tools=[*foreign, {**TOOL, "cache_control": {"type": "ephemeral"}, "type": "custom"}]).chat.toolbox
    function = {"name": "weather", "description": "Forecast.", "parameters": SCHEMA}
    assert box == Toolbox(({"type": "function", "function": function},))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ("auto", None, True, 1)),
        ({"type": "auto", "disable_parallel_tool_use": True}, ("auto", None, False, 1)),
        ({"type": "any"}, ("required", None, True, 1)),
        ({"type": "any", "disable_parallel_tool_use": True}, ("required", None, False, 1)),
        ({"type": "tool", "name": "weather"}, ("required", "weather", True, 1)),
        ({"type": "none"}, ("auto", None, True, 0)),
    ],
)
def test_the_choice_of_tools(choice: object, expected: tuple[str, str | None, bool, int]) -> None:
    box = read(tools=[TOOL], tool_choice=choice).chat.toolbox
    assert (box.choice, box.name, box.parallel, len(box.tools)) == expected


def test_limits_stops_and_samplers_are_passed_on() -> None:
    wanted = read(
        max_tokens=7,
        stream=True,
        stop_sequences=["a", "b", "c", "d", "e"],
        temperature=0.5,
        top_p=0.9,
        top_k=4,
        min_p=0.1,
        xtc_probability=0.2,
        xtc_threshold=0.3,
        repetition_penalty=1.1,
        repetition_context_size=5,
    ).chat.generation
    assert (wanted.max_tokens, wanted.stream, wanted.stops) == (7, True, ("a", "b", "c", "d", "e"))
    sampling = wanted.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.9, 4, 0.1)
    assert (sampling.xtc_probability, sampling.xtc_threshold) == (0.2, 0.3)
    assert (sampling.repetition.strength, sampling.repetition.window) == (1.1, 5)


@pytest.mark.parametrize("name", ["output_format", "output_config"])
def test_a_format_is_a_constraint(name: str) -> None:
    wanted = {"type": "json_schema", "schema": {"type": "object"}}
    fields: Any = {name: wanted if name == "output_format" else {"format": wanted}}
    constraint = read(**fields).chat.generation.constraint
    assert constraint is not None
    assert (constraint.kind, constraint.source) == ("json_schema", '{"type": "object"}')


def test_the_user_is_the_session_unless_one_is_named() -> None:
    user: Any = {"metadata": {"user_id": "user_1_session_2"}}
    assert read(**user).chat.generation.session == "user_1_session_2"
    assert read(**user, session_id="s").chat.generation.session == "s"
    assert read(headers={"x-session-affinity": "h"}, **user).chat.generation.session == "h"
    assert read(metadata={}).chat.generation.session is None


def test_a_long_user_is_a_session_too() -> None:
    first, second = (read(metadata={"user_id": "x" * LONGEST + end}).chat.generation.session for end in "ab")
    assert first is not None and second is not None
    assert first != second and len(first) <= LONGEST


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens is required"),
        ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "thinking.budget_tokens must be at least 1"),
        ({"thinking": {}}, "thinking.type must be one of"),
        ({"thinking": "yes"}, "thinking must be an object"),
        ({"output_config": {"effort": "some"}}, "output_config.effort must be one of"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type must be one of"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"stop_sequences": [""]}, "stop_sequences must not be an empty string"),
        ({"stop_sequences": ["x"] * 65}, "stop_sequences must have at most 64 strings"),
        ({"stop_sequences": "x"}, "stop_sequences must be an array"),
        ({"logit_bias": {"1": 2}}, "logit_bias does not exist in this protocol"),
        ({"metadata": {"user_id": 5}}, "metadata.user_id must be a string"),
        ({"tools": [5]}, "tools[0] must be an object"),
        ({"tools": [{**TOOL, "name": 5}]}, "tools[0].name must be a non-empty string"),
        ({"tools": [{**TOOL, "input_schema": []}]}, "tools[0].input_schema must be an object"),
        ({"tools": [{**TOOL, "description": 5}]}, "tools[0].description must be a string"),
        ({"tools": [TOOL], "tool_choice": {"type": "must"}}, "tool_choice.type must be one of"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name must be a non-empty string"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}}, "a tool named 'x'"),
        ({"tool_choice": {"type": "any"}}, "tool_choice asks for a tool, but tools has none"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}},
            "tool_choice.disable_parallel_tool_use must be of type bool",
        ),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], words: str) -> None:
    assert words in refusal(**fields)
