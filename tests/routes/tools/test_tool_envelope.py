import pytest

from routes.parts import ToolCall
from routes.tools.envelope import make_call, read_calls
from routes.tools.format import Tools

TOOLS: Tools = {"f": {}, "g": {}}
CALL = ToolCall("f", '{"a":1}')


@pytest.mark.parametrize(
    "envelope",
    [
        {"name": "f", "arguments": {"a": 1}},
        {"name": "f", "parameters": {"a": 1}},
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
        {"function": {"name": "f", "arguments": '{"a": 1}'}},
        {"function": "f", "arguments": {"a": 1}},
        {"name": "f", "arguments": '{"a": 1}'},
        {"name": "f", "arguments": "{'a': 1,}"},
        {"arguments": {"name": "f", "a": 1}},
        {"name": "", "arguments": {"name": "f", "a": 1}},
        {"arguments": {"name": "f", "arguments": {"a": 1}}},
    ],
)
def test_a_call_is_read_from_its_envelope(envelope: object) -> None:
    assert read_calls(envelope, TOOLS) == (CALL,)


def test_an_argument_may_be_called_name() -> None:
    assert read_calls({"name": "f", "arguments": {"name": "g"}}, TOOLS) == (ToolCall("f", '{"name":"g"}'),)


@pytest.mark.parametrize("arguments", [{}, None, "", " "])
def test_arguments_may_be_empty(arguments: object) -> None:
    assert read_calls({"name": "f", "arguments": arguments}, TOOLS) == (ToolCall("f", "{}"),)


def test_arguments_may_be_missing() -> None:
    assert read_calls({"name": "f"}, TOOLS) == (ToolCall("f", "{}"),)


def test_an_array_holds_several_calls() -> None:
    calls = [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]
    assert read_calls(calls, TOOLS) == (CALL, ToolCall("g", "{}"))


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        "f",
        [],
        {},
        {"a": 1},
        {"name": "nobody", "arguments": {}},
        {"name": ["f"], "arguments": {}},
        {"name": "f", "arguments": [1]},
        {"name": "f", "arguments": "words"},
        {"name": "f", "a": 1},
        {"arguments": {"a": 1}},
        {"arguments": {"arguments": {"arguments": {}}}},
        {"function": {"function": None}},
        [{"name": "f", "arguments": {}}, {"name": "nobody", "arguments": {}}],
    ],
)
def test_anything_else_is_no_call(value: object) -> None:
    assert read_calls(value, TOOLS) == ()


def test_a_call_needs_an_offered_function_and_arguments_that_json_can_carry() -> None:
    assert make_call("f", {"a": 1}, TOOLS) == CALL
    assert make_call("nobody", {"a": 1}, TOOLS) is None
    assert make_call("f", {"a": float("nan")}, TOOLS) is None
