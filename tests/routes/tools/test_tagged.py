import pytest

from routes.parts import Content, ToolCall
from routes.tools.format import Tools
from routes.tools.tagged import TAGGED, detects
from tests.routes.tools.cutting import split

TOOLS: Tools = {"f": {"properties": {"a": {"type": "integer"}}}}
CALL = ToolCall("f", '{"a":1}')
MARKUP = [
    '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
    "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    "<function=f><parameter=a>1</parameter></function>",
    "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    '<function name="f"><param name="a">1</param></function>',
]


@pytest.mark.parametrize("markup", MARKUP)
def test_each_family_is_read(markup: str) -> None:
    assert split(f"So: {markup}\n", TAGGED, TOOLS) == [Content("So:"), CALL]


def test_families_may_be_mixed() -> None:
    assert split("\n".join(MARKUP), TAGGED, TOOLS) == [CALL] * 5


def test_json_in_a_value_is_not_the_call() -> None:
    value = '{"name": "f", "arguments": {"a": 2}}'
    text = f"<tool_call><function=f><parameter=b>[{value}]</parameter></function></tool_call>"
    assert split(text, TAGGED, TOOLS) == [ToolCall("f", '{"b":[{"name":"f","arguments":{"a":2}}]}')]


@pytest.mark.parametrize("text", ["<tool_call>", "<function=", "<function name=", "<tool_call><func", "<tool_call>f"])
def test_what_is_no_call_is_content_unchanged(text: str) -> None:
    assert split(text, TAGGED, TOOLS) == [Content(text)]


def test_tags_in_the_template_or_among_the_tokens_tell_it() -> None:
    assert detects("… <tool_call> …", frozenset()) is TAGGED
    assert detects("", frozenset(["<tool_call>"])) is TAGGED
    assert detects('<function name="x">', frozenset()) is TAGGED
    assert detects("<function=x>", frozenset()) is None
