import json

import pytest

from routes.parts import Content, Part, ToolCall
from routes.tools.format import Tools
from routes.tools.glm import GLM
from tests.routes.tools.cutting import split

TOOLS: Tools = {"f": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}, "now": {}}


def parse(text: str) -> list[Part]:
    """What comes out however the text is cut."""
    whole = split([text], GLM, TOOLS)
    assert split(text, GLM, TOOLS) == whole
    return whole


def call(**arguments: object) -> ToolCall:
    return ToolCall("f", json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))


def argument(key: str, value: str) -> str:
    return f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"


def test_values_are_decoded_by_the_schema() -> None:
    text = f"Now.\n<tool_call>f\n{argument('s', '1')}{argument('n', '1')}{argument('o', '[1]')}</tool_call>"
    assert parse(text) == [Content("Now."), call(s="1", n=1, o=[1])]


def test_line_breaks_between_tags_may_be_missing() -> None:
    text = "<tool_call>f<arg_key>n</arg_key><arg_value>1</arg_value></tool_call><tool_call>now</tool_call>"
    assert parse(text) == [call(n=1), ToolCall("now", "{}")]


@pytest.mark.parametrize(
    "value",
    [" \n kept \n", "&lt;", "</tool_call>", "</arg_value>", "a</arg_value> b</tool_call>", "<arg_key>k</arg_key>", "é"],
)
def test_a_string_is_raw_and_may_contain_tags(value: str) -> None:
    assert parse(f"<tool_call>f\n{argument('s', value)}{argument('n', '2')}</tool_call>") == [call(s=value, n=2)]


def test_a_call_cut_off_after_an_argument_is_a_call() -> None:
    assert parse(f"<tool_call>f\n{argument('n', '1')}") == [call(n=1)]


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>nobody\n{argument('n', '1')}</tool_call>",
        "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>cut off in the mid",
        "<tool_call>f\n<arg_key>s</arg",
        "<tool_call>f",
        "<tool_call>f\nwords</tool_call>",
        "The <tool_call> tag.",
    ],
)
def test_what_is_no_call_is_content_unchanged(text: str) -> None:
    assert parse(text) == [Content(text)]


def test_a_call_is_found_after_a_mention_of_the_tag() -> None:
    assert parse("The <tool_call> tag: <tool_call>now</tool_call>") == [
        Content("The <tool_call> tag:"),
        ToolCall("now", "{}"),
    ]
