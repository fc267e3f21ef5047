import pytest

from actors.errors import InvalidRequest
from routes.schema.messages import Message, read_messages


def read(*messages: object) -> tuple[Message, ...]:
    return read_messages({"messages": list(messages)}, "org/tiny")


def call(arguments: object) -> dict[str, object]:
    function = {"name": "f", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert read({"role": "user", "content": parts}) == ({"role": "user", "content": "one two"},)


def test_an_assistant_may_have_said_nothing() -> None:
    assert read({"role": "assistant"}, {"role": "assistant", "content": None}) == (
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": ""},
    )


@pytest.mark.parametrize(
    ("arguments", "expected"), [('{"a": [1]}', {"a": [1]}), ({"a": 1}, {"a": 1}), ("", {}), (" ", {}), (None, {})]
)
def test_tool_arguments_become_an_object(arguments: object, expected: dict[str, object]) -> None:
    (message,) = read(call(arguments))
    assert message["tool_calls"] == [{"id": "c", "type": "function", "function": {"name": "f", "arguments": expected}}]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("{'a': True,}", {"a": True}), ('{"a": [1, 2', {"a": [1, 2]}), ('{"a": "half', '{"a": "half'), ("no", "no")],
)
def test_broken_arguments_in_a_history_are_mended_or_left_as_they_are(arguments: str, expected: object) -> None:
    (message,) = read(call(arguments))
    assert message["tool_calls"] == [{"id": "c", "type": "function", "function": {"name": "f", "arguments": expected}}]


def test_arguments_nested_without_end_are_left_as_they_are() -> None:
    text = '{"a":' * 50_000
    (message,) = read(call(text))
    assert message["tool_calls"] == [{"id": "c", "type": "function", "function": {"name": "f", "arguments": text}}]


@pytest.mark.parametrize("arguments", ["[1]", "5", 5, [1]])
def test_tool_arguments_that_are_no_object_are_refused(arguments: object) -> None:
    with pytest.raises(InvalidRequest, match=r"messages\[0\]\.tool_calls\[0\]\.function\.arguments must be"):
        read(call(arguments))


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ({"role": "user", "content": "x", "tool_calls": []}, "belongs to assistant messages only"),
        ({"role": "assistant", "tool_calls": {}}, "tool_calls must be an array"),
        ({"role": "assistant", "tool_calls": [5]}, "function must be an object"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, "name must be a non-empty string"),
        ({"role": "assistant", "tool_calls": [{"id": 5, "function": {"name": "f"}}]}, "id must be a string"),
        ({"role": "tool", "content": "x", "tool_call_id": 5}, "tool_call_id must be a string"),
        ({"role": "user", "content": "x", "name": 5}, "name must be a string"),
        ({"role": "assistant", "reasoning": 5}, "reasoning must be a string"),
    ],
)
def test_what_is_wrong_in_a_message_is_named(message: dict[str, object], fault: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^messages\[0\].*{fault}"):
        read(message)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"reasoning": "why"}, "why"),
        ({"reasoning": "why", "reasoning_content": "because"}, "because"),
        ({"reasoning": "why", "reasoning_content": ""}, ""),
        ({"reasoning": "why", "reasoning_content": None}, "why"),
        ({"reasoning_content": "because"}, "because"),
    ],
)
def test_reasoning_is_another_name_of_reasoning_content(given: dict[str, object], expected: str) -> None:
    original = {"role": "assistant", "content": "x", **given}
    kept = dict(original)
    (message,) = read(original)
    assert message["reasoning_content"] == expected
    assert original == kept


def test_fields_a_template_may_know_are_passed_on() -> None:
    (message,) = read({"role": "tool", "content": "x", "tool_call_id": "c", "name": "f", "extra": {"a": 1}})
    assert message == {"role": "tool", "content": "x", "tool_call_id": "c", "name": "f", "extra": {"a": 1}}
