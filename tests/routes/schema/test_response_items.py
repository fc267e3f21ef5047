from __future__ import annotations

from typing import Any

import pytest

from actors.errors import InvalidRequest
from routes.schema.messages import Message
from routes.schema.response_items import conversation, named, read_items

USER = {"role": "user", "content": "hi"}


def read(*items: object, instructions: str | None = None) -> tuple[Message, ...]:
    return conversation(read_items(list(items)), instructions, "org/tiny")


def message(role: str, *parts: dict[str, object]) -> dict[str, object]:
    return {"type": "message", "role": role, "content": list(parts)}


def text(words: str, kind: str = "input_text") -> dict[str, object]:
    return {"type": kind, "text": words}


def call(name: str, identity: str, arguments: str = "{}") -> dict[str, object]:
    return {"type": "function_call", "id": "fc_1", "call_id": identity, "name": name, "arguments": arguments}


def called(name: str, identity: str, arguments: object) -> dict[str, object]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_string_is_a_message_of_the_user() -> None:
    assert conversation(read_items("hi"), None, "m") == (USER,)


def test_messages_come_with_and_without_type_and_with_text_or_parts() -> None:
    assert read(
        USER,
        message("assistant", text("Hel", "output_text"), text("lo", "output_text")),
        message("user", text("and?")),
        message("assistant", {"type": "refusal", "refusal": "No."}),
    ) == (
        USER,
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "No."},
    )


def test_instructions_and_whatever_the_system_says_are_one_message_in_front() -> None:
    items = [
        message("developer", text("Use tools.")),
        USER,
        {"role": "system", "content": "Be brief."},
        message("developer", text("")),
    ]
    system = {"role": "system", "content": "You are a clerk.\n\nUse tools.\n\nBe brief."}
    assert read(*items, instructions="You are a clerk.") == (system, USER)


def test_calls_in_a_row_and_the_text_before_them_are_one_message() -> None:
    said = read(
        USER,
        message("assistant", text("Let me see.", "output_text")),
        call("weather", "call_1", '{"city": "Rome"}'),
        call("time", "call_2"),
        {"type": "function_call_output", "call_id": "call_2", "output": "noon"},
        {"type": "function_call_output", "call_id": "call_1", "output": [text("sun"), text("ny")]},
        call("weather", "call_3"),
    )
    assert said[1:] == (
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [called("weather", "call_1", {"city": "Rome"}), called("time", "call_2", {})],
        },
        {"role": "tool", "tool_call_id": "call_2", "name": "time", "content": "noon"},
        {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "sunny"},
        {"role": "assistant", "content": "", "tool_calls": [called("weather", "call_3", {})]},
    )


def test_custom_tools_and_shells_are_calls_of_functions() -> None:
    said = read(
        {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "done"},
        {
            "type": "local_shell_call",
            "id": "b",
            "call_id": None,
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}, "user": None},
        },
        {"type": "local_shell_call_output", "id": "b", "output": '{"stdout": ""}'},
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"], "timeout_ms": None}},
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x", "stderr": ""}]},
        {"type": "apply_patch_call", "call_id": "d", "operation": {"type": "delete_file", "path": "x"}},
        {"type": "apply_patch_call_output", "call_id": "d", "status": "completed"},
    )
    calls: Any = [entry["tool_calls"] for entry in said if entry["role"] == "assistant"]
    assert [entry[0]["function"] for entry in calls] == [
        {"name": "apply_patch", "arguments": {"input": "*** Begin"}},
        {"name": "local_shell", "arguments": {"command": ["ls"], "env": {}}},
        {"name": "shell", "arguments": {"commands": ["ls"]}},
        {"name": "apply_patch", "arguments": {"type": "delete_file", "path": "x"}},
    ]
    results = [(entry["name"], entry["tool_call_id"], entry["content"]) for entry in said if entry["role"] == "tool"]
    assert results == [
        ("apply_patch", "a", "done"),
        ("local_shell", "b", '{"stdout": ""}'),
        ("shell", "c", '[{"stdout":"x","stderr":""}]'),
        ("apply_patch", "d", ""),
    ]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "gAAA"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "ghost_snapshot", "ghost_commit": {}},
        {"type": "compaction", "encrypted_content": "gAAA"},
        {"type": "tool_search_call", "execution": "client", "arguments": {}},
        {"type": "mcp_call", "name": "x", "arguments": "{}", "output": "y"},
    ],
)
def test_reasoning_and_what_ran_elsewhere_are_left_out(item: dict[str, object]) -> None:
    assert read(USER, item) == (USER,)


def test_a_result_without_its_call_is_a_result() -> None:
    (_, result) = read(USER, {"type": "function_call_output", "call_id": "x", "output": "y"})
    assert result == {"role": "tool", "tool_call_id": "x", "content": "y"}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (None, "input must be a string or an array of items"),
        (5, "input must be a string or an array of items"),
        (["x"], r"input\[0\] must be an object"),
        ([{"type": "video"}], r"input\[0\]\.type is not known"),
        ([{}], r"input\[0\]\.type is not known"),
        ([{"type": 5}], r"input\[0\]\.type is not known"),
        ([{"id": ""}], r"input\[0\]\.id must be a non-empty string"),
        ([{"type": "item_reference"}], r"input\[0\]\.id must be a non-empty string"),
        ([{"type": "item_reference", "id": ["msg_1"]}], r"input\[0\]\.id must be a non-empty string"),
        ([{"role": "tool", "content": "x"}], r"input\[0\]\.role must be one of"),
        ([{"role": "user"}], r"input\[0\]\.content must be a string or an array"),
        ([message("user", {"type": "input_text"})], r"input\[0\]\.content\[0\]\.text must be a string"),
        ([message("user", {"text": "x"})], r"input\[0\]\.content\[0\] must be an object with a type"),
        ([message("user", {"type": "smell"})], r"input\[0\]\.content\[0\]\.type is not known"),
        ([message("user", {"type": "input_image", "image_url": "data:"})], "model has no vision sidecar"),
        ([message("user", {"type": "input_audio"})], "model org/tiny does not accept audio"),
        ([message("user", {"type": "input_file", "file_id": "f"})], "model org/tiny does not read files"),
        ([{"type": "function_call", "call_id": "x", "arguments": "{}"}], r"input\[0\]\.name must be"),
        ([{"type": "function_call", "name": "f", "arguments": "{}"}], r"input\[0\]\.call_id must be"),
        ([call("f", "x", "[1]")], r"input\[0\]\.arguments must be a JSON object"),
        ([{"type": "custom_tool_call", "call_id": "x", "name": "f"}], r"input\[0\]\.input must be a string"),
        ([{"type": "local_shell_call", "call_id": "x"}], r"input\[0\]\.action must be an object"),
        ([{"type": "function_call_output", "output": "x"}], r"input\[0\]\.call_id must be"),
        ([], "input has no message"),
        ([{"type": "reasoning", "summary": []}], "input has no message"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(given: object, fault: str) -> None:
    with pytest.raises(InvalidRequest, match=fault):
        conversation(read_items(given), None, "org/tiny")


@pytest.mark.parametrize("given", [{"id": "msg_1"}, {"type": "item_reference", "id": "msg_1"}])
def test_what_has_only_an_id_is_a_reference(given: dict[str, object]) -> None:
    assert read_items([given]) == ({"type": "item_reference", "id": "msg_1"},)


def test_instructions_alone_are_a_conversation() -> None:
    assert conversation((), "Say hello.", "m") == ({"role": "system", "content": "Say hello."},)


def test_items_are_listed_with_an_id_and_with_parts() -> None:
    (user, answer) = read_items([USER, {"role": "assistant", "content": "yes", "id": "msg_7"}])
    listed = named(user)
    assert str(listed["id"]).startswith("msg_")
    assert listed["content"] == [{"type": "input_text", "text": "hi"}]
    assert named(answer) == {
        "type": "message",
        "role": "assistant",
        "id": "msg_7",
        "status": "completed",
        "content": [{"type": "output_text", "text": "yes"}],
    }
