from __future__ import annotations

from typing import Any

import pytest

from actors.errors import InvalidRequest
from routes.schema.response_tools import ResponseTools, read_response_tools, tool_name

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "weather",
    "description": "Forecast.",
    "strict": True,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
CLOCK: dict[str, Any] = {"type": "function", "name": "clock"}
PATCH: dict[str, Any] = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'},
}
FOREIGN: list[dict[str, Any]] = [
    {"type": "web_search"},
    {"type": "local_shell"},
    {"type": "mcp", "server_label": "x"},
    {"type": "namespace", "name": "crm", "description": "", "tools": [CLOCK]},
    {"type": "image_generation", "model": "x"},
    {"type": "tool_search"},
    {"type": "never_heard_of"},
]


def read(*tools: object, **fields: object) -> ResponseTools:
    return read_response_tools({"tools": list(tools), **fields}, ())


def offered(read: ResponseTools) -> list[str]:
    return [tool_name(tool) for tool in read.toolbox.tools]


def test_functions_are_offered_as_every_protocol_offers_them() -> None:
    tools = read(WEATHER, CLOCK)
    assert tools.toolbox.tools == (
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Forecast.",
                "parameters": WEATHER["parameters"],
                "strict": True,
            },
        },
        {"type": "function", "function": {"name": "clock"}},
    )
    assert (tools.toolbox.choice, tools.toolbox.parallel, tools.choice) == ("auto", True, "auto")
    assert tools.listed == (WEATHER, CLOCK)


def test_a_custom_tool_is_a_function_with_one_string_whose_grammar_is_told() -> None:
    tools = read(PATCH)
    (tool,) = tools.toolbox.tools
    function: Any = tool["function"]
    assert tools.custom == {"apply_patch"}
    assert function["description"] == 'Edits files.\n\nThe input follows this grammar (lark):\nstart: "x"'
    assert function["parameters"]["required"] == ["input"]
    assert function["parameters"]["properties"] == {"input": {"type": "string"}}


def test_what_others_run_and_namespaces_are_left_out() -> None:
    tools = read(*FOREIGN[:3], WEATHER, *FOREIGN[3:])
    assert offered(tools) == ["weather"]
    assert tools.listed == (WEATHER,)


def test_tools_of_an_input_item_are_offered_too() -> None:
    tools = read_response_tools({"tools": [WEATHER]}, [CLOCK, *FOREIGN])
    assert offered(tools) == ["weather", "clock"]


def test_none_offers_nothing() -> None:
    assert offered(read(WEATHER, tool_choice="none")) == []


def test_required_asks_for_any_call() -> None:
    box = read(WEATHER, CLOCK, tool_choice="required", parallel_tool_calls=False).toolbox
    assert (box.choice, box.name, box.parallel) == ("required", None, False)


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_a_name_asks_for_its_call(kind: str) -> None:
    tools = read(WEATHER, PATCH, tool_choice={"type": kind, "name": "apply_patch"})
    assert (tools.toolbox.choice, tools.toolbox.name) == ("required", "apply_patch")
    assert offered(tools) == ["weather", "apply_patch"]


@pytest.mark.parametrize(("mode", "choice"), [("auto", "auto"), ("required", "required"), (None, "auto")])
def test_only_the_allowed_tools_are_offered(mode: str | None, choice: str) -> None:
    allowed = {
        "type": "allowed_tools",
        "mode": mode,
        "tools": [{"type": "function", "name": "clock"}, {"type": "web_search"}],
    }
    tools = read(WEATHER, CLOCK, tool_choice=allowed)
    assert (offered(tools), tools.toolbox.choice, tools.toolbox.name) == (["clock"], choice, None)
    assert tools.listed == (WEATHER, CLOCK)


def test_where_every_tool_is_left_out_nothing_is_required() -> None:
    assert read(*FOREIGN, tool_choice="required").toolbox.choice == "auto"
    assert offered(read(*FOREIGN, tool_choice="required")) == []


def test_a_choice_of_a_tool_that_is_left_out_is_no_choice() -> None:
    assert read(WEATHER, *FOREIGN, tool_choice={"type": "web_search"}).toolbox.choice == "auto"


@pytest.mark.parametrize(
    ("tools", "choice", "fault"),
    [
        ([5], None, r"tools\[0\] must be an object with a type"),
        ([{"name": "x"}], None, r"tools\[0\] must be an object with a type"),
        ([WEATHER, {"type": "function"}], None, r"tools\[1\]\.name must be"),
        ([{"type": "custom", "name": ""}], None, r"tools\[0\]\.name must be"),
        ([{**CLOCK, "parameters": []}], None, r"tools\[0\]\.parameters must be an object"),
        ([{**CLOCK, "description": 5}], None, r"tools\[0\]\.description must be a string"),
        ([{**PATCH, "format": "lark"}], None, r"tools\[0\]\.format must be an object"),
        ([CLOCK] * 1025, None, "tools must have at most 1024 entries"),
        ([], "required", "tool_choice asks for a tool, but tools has none"),
        ([CLOCK], {"type": "function", "name": "weather"}, "asks for a tool named 'weather', but"),
        ([CLOCK], {"type": "function"}, r"tool_choice\.name must be"),
        ([CLOCK], "any", "tool_choice must be"),
        ([CLOCK], 5, "tool_choice must be"),
        ([CLOCK], {"name": "clock"}, "tool_choice must be"),
        ([CLOCK], {"type": "allowed_tools"}, r"tool_choice\.tools must be an array"),
        ([CLOCK], {"type": "allowed_tools", "tools": ["clock"]}, "must be an array of objects"),
        ([CLOCK], {"type": "allowed_tools", "mode": "all", "tools": []}, r"tool_choice\.mode must be one of"),
        ([CLOCK], {"type": "allowed_tools", "mode": "required", "tools": []}, "asks for a tool, but tools has none"),
    ],
)
def test_what_is_wrong_is_said(tools: list[Any], choice: object, fault: str) -> None:
    with pytest.raises(InvalidRequest, match=fault):
        read_response_tools({"tools": tools, "tool_choice": choice}, ())
