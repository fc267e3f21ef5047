"""How a conversation of the Messages protocol reads as chat templates have it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.errors import InvalidRequest
from routes.schema.message_blocks import History

CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}
CALLED = {
    "id": "toolu_1",
    "type": "function",
    "function": {"name": "weather", "arguments": {"city": "Paris"}},
}


def read(*messages: object, thinking: bool = False, **fields: Any) -> list[Any]:
    return list(History("org/tiny", thinking).read({"messages": list(messages), **fields}))


def user(*blocks: object) -> dict[str, object]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: object) -> dict[str, object]:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str, **more: object) -> dict[str, object]:
    return {"type": "text", "text": words, **more}


def result(content: object = None, **more: object) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", **more}
    return block if content is None else {**block, "content": content}


def test_strings_are_messages_as_they_are() -> None:
    assert read({"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}) == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yo"},
    ]


@pytest.mark.parametrize("system", ["Be brief.\n\nBe kind.", [text("Be brief."), text("Be kind.", cache_control={})]])
def test_the_system_prompt_comes_first(system: object) -> None:
    assert read(user(text("hi")), system=system)[0] == {"role": "system", "content": "Be brief.\n\nBe kind."}


@pytest.mark.parametrize("system", [None, "", []])
def test_an_empty_system_prompt_is_none(system: object) -> None:
    assert read(user(text("hi")), system=system) == [{"role": "user", "content": "hi"}]


def test_what_changes_with_every_request_of_claude_code_is_no_part_of_the_prompt() -> None:
    bill = text("x-anthropic-billing-header: cc_version=2.0.1.abc; cc_entrypoint=cli; cch=12345;")
    assert read(user(text("hi")), system=[bill, text("You help.")])[0]["content"] == "You help."


def test_a_system_message_may_stand_among_the_others() -> None:
    assert read(user(text("hi")), {"role": "system", "content": [text("Now in French.")]})[1] == {
        "role": "system",
        "content": "Now in French.",
    }


def test_blocks_of_text_are_one_text() -> None:
    assert read(user(text("one "), text("two")))[0]["content"] == "one two"


def test_a_call_and_its_result() -> None:
    assert read(user(text("Weather?")), assistant(text("Let me see."), CALL), user(result("sunny"))) == [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "sunny", "name": "weather"},
    ]


def test_words_beside_results_keep_their_places() -> None:
    said = read(assistant(CALL), user(result("a"), result("b"), text("and "), text("now?")))
    assert [(message["role"], message["content"]) for message in said[1:]] == [
        ("tool", "a"),
        ("tool", "b"),
        ("user", "and now?"),
    ]


@pytest.mark.parametrize(
    ("content", "failed", "expected"),
    [
        (None, None, ""),
        ([], False, ""),
        ([text("a"), text("b")], None, "a\nb"),
        ("gone", True, "Error: gone"),
        ([{"type": "search_result", "title": "T", "source": "S", "content": [text("found")]}], None, "T\nS\nfound"),
        ([{"type": "tool_reference", "tool_name": "x"}, text("a")], None, "a"),
    ],
)
def test_a_result_is_text(content: object, failed: bool | None, expected: str) -> None:
    (_, told) = read(assistant(CALL), user(result(content, is_error=failed)))
    assert told["content"] == expected


def test_thinking_of_earlier_turns_is_left_out_unless_it_is_wanted() -> None:
    turn = assistant(
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        text("Yes."),
    )
    assert read(turn) == [{"role": "assistant", "content": "Yes."}]
    assert read(turn, thinking=True) == [{"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}]


def test_the_work_of_other_peoples_tools_is_left_out() -> None:
    turn = assistant(
        text("I looked: "),
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        text("it rains."),
    )
    assert read(turn) == [{"role": "assistant", "content": "I looked: it rains."}]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"type": "text", "media_type": "text/plain", "data": "words"}, "T\nwords"),
        ({"type": "content", "content": [text("wo"), text("rds")]}, "T\nwords"),
    ],
)
def test_documents_of_text_are_text(source: object, expected: str) -> None:
    assert read(user({"type": "document", "title": "T", "source": source}))[0]["content"] == expected


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (user(PICTURE), "no vision sidecar (messages[0].content[0] is an image block)"),
        (user(result([PICTURE])), "no vision sidecar (messages[0].content[0].content[0] is an image block)"),
        (user({"type": "input_audio"}), "/v1/chat/completions"),
        (user({"type": "document", "source": {"type": "base64", "data": "AA"}}), "plain text only"),
        (
            user({"type": "document", "source": {"type": "content", "content": [{"type": "document"}]}}),
            "messages[0].content[0].source.content[0] must be a block of text",
        ),
        (user({"type": "search_result", "content": [PICTURE]}), "no vision sidecar"),
        (user({"type": "mystery"}), "messages[0].content[0].type 'mystery' is not known"),
        (user(CALL), "'tool_use' is not known, or has no place here"),
        (assistant(result()), "'tool_result' is not known, or has no place here"),
        (user({"text": "no type"}), "must be an object with a type"),
        (user({"type": "text", "text": 5}), "messages[0].content[0].text must be a string"),
        ({"role": "user", "content": 5}, "must be a string or an array of content blocks"),
        ({"role": "user"}, "must be a string or an array of content blocks"),
        ({"role": "tool", "content": "x"}, "messages[0].role must be one of 'user', 'assistant', 'system'"),
        ("hi", "messages[0] must be an object"),
        (assistant({**CALL, "input": "x"}), "messages[0].content[0].input must be an object"),
        (assistant({**CALL, "name": ""}), "messages[0].content[0].name must not be empty"),
        (user({"type": "tool_result", "content": "x"}), "tool_use_id must be a string"),
        (user(result("x", is_error="yes")), "is_error must be of type bool"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(message: object, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(message)
    assert words in refused.value.message


@pytest.mark.parametrize("messages", [None, []])
def test_a_conversation_needs_a_message(messages: object) -> None:
    with pytest.raises(InvalidRequest, match="messages required"):
        History("org/tiny", False).read({"messages": messages})
