import json

import pytest

from routes.parts import Content, Part, ToolCall
from routes.tools.format import Tools
from routes.tools.hermes import HERMES
from tests.routes.tools.cutting import split

TOOLS: Tools = {"f": {}, "write": {"type": "object", "properties": {"text": {"type": "string"}}}}
CALL = ToolCall("f", '{"a":1}')
BODY = '{"name": "f", "arguments": {"a": 1}}'


def parse(text: str) -> list[Part]:
    """What comes out however the text is cut."""
    whole = split([text], HERMES, TOOLS)
    assert split(text, HERMES, TOOLS) == whole
    return whole


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{BODY}</tool_call>",
        f"<tool_call>\n{BODY}\n</tool_call>\n",
        f"<tool_call>\n{BODY}",
        f"<tool_call>\n{BODY}\n",
        f"<tool_call>[{BODY}]</tool_call>",
        f"<tool_call>```json\n{BODY}\n```</tool_call>",
        f"<tool_call>I call this: {BODY}</tool_call>",
        f"<tool_call>{BODY}}}</tool_call>",
        f"<tool_call>{BODY}}}",
        f"<tool_call>{BODY[:-1]}</tool_call>",
        f"<tool_call>{BODY[:-2]}}}",
        f"<tool_call>{BODY[:-1]}",
        "<tool_call>{'name': 'f', 'arguments': {'a': 1,}}</tool_call>",
        '<tool_call>{"arguments": {"name": "f", "a": 1}}</tool_call>',
        '<tool_call>{"name": "f", "parameters": {"a": 1}}</tool_call>',
    ],
)
def test_a_call_is_read_however_it_is_written(text: str) -> None:
    assert parse(text) == [CALL]


def test_several_calls_follow_each_other() -> None:
    text = f"<tool_call>{BODY}</tool_call>\n<tool_call>\n{BODY}\n</tool_call>"
    assert parse("Two: " + text) == [Content("Two:"), CALL, CALL]


def test_a_forgotten_closer_does_not_swallow_the_next_call() -> None:
    assert parse(f"<tool_call>{BODY}\n<tool_call>{BODY}</tool_call> so") == [CALL, CALL, Content("so")]


def test_text_after_a_forgotten_closer_is_content() -> None:
    assert parse(f"<tool_call>{BODY}\nThat was it.") == [CALL, Content("That was it.")]


def test_a_closing_tag_inside_a_string_does_not_end_the_call() -> None:
    value = 'Tags: <tool_call>{"name": "f"}</tool_call> "}}</tool_call>'
    body = json.dumps({"name": "write", "arguments": {"text": value}})
    call = ToolCall("write", json.dumps({"text": value}, separators=(",", ":")))
    assert parse(f"<tool_call>{body}</tool_call>") == [call]


def test_a_closing_tag_in_single_quotes_is_taken_for_the_end_of_the_call() -> None:
    text = "<tool_call>{'name': 'write', 'arguments': {'text': '</tool_call>'}}</tool_call>"
    assert parse(text) == [Content(text)]


def test_python_literals_become_json_but_not_in_strings() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": True, "b": None, "c": "True or None"}}</tool_call>'
    assert parse(text) == [ToolCall("f", '{"a":true,"b":null,"c":"True or None"}')]


def test_line_breaks_in_strings_are_read() -> None:
    text = '<tool_call>{"name": "write", "arguments": {"text": "one\ntwo"}}</tool_call>'
    assert parse(text) == [ToolCall("write", '{"text":"one\\ntwo"}')]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "nobody", "arguments": {}}</tool_call>',
        "<tool_call>no json at all</tool_call>",
        '<tool_call>{"name": "f", "arguments": nonsense}</tool_call>',
        '<tool_call>{"name": "write", "arguments": {"text": "cut off in the mid',
        '<tool_call>{"name": "f", "arguments": {"a": 12',
        '<tool_call>{"name": "f", "arguments": {"a": tr',
        '<tool_call>{"name": "f", "argum',
        "<tool_call>",
        "<tool_call> {",
        "The <tool_call> tag begins a call, and </tool_call> ends it.",
    ],
)
def test_what_is_no_call_is_content_unchanged(text: str) -> None:
    assert parse(text) == [Content(text)]


def test_a_call_is_found_after_markup_that_is_none() -> None:
    text = f"The <tool_call> tag: <tool_call>{BODY}</tool_call>"
    assert parse(text) == [Content("The <tool_call> tag:"), CALL]


def test_a_call_is_found_after_a_broken_one() -> None:
    text = f'<tool_call>{{"name": "f" "no comma"}}</tool_call>\n<tool_call>{BODY}</tool_call>'
    assert parse(text) == [Content('<tool_call>{"name": "f" "no comma"}</tool_call>'), CALL]


def test_a_call_is_found_after_one_whose_string_has_no_end() -> None:
    broken = '<tool_call>{"name": "f", "arguments": {"a": "b}}</tool_call>'
    assert parse(f"{broken} <tool_call>{BODY}</tool_call>") == [Content(broken), CALL]
