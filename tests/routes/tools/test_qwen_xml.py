import json

import pytest

from routes.parts import Content, Part, ToolCall
from routes.tools.format import Tools
from routes.tools.qwen_xml import QWEN_XML
from tests.routes.tools.cutting import split

TOOLS: Tools = {
    "edit": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "edits": {"type": "array"},
            "line": {"type": "integer"},
            "force": {"type": "boolean"},
        },
    },
    "now": {},
}


def parse(text: str) -> list[Part]:
    """What comes out however the text is cut."""
    whole = split([text], QWEN_XML, TOOLS)
    assert split(text, QWEN_XML, TOOLS) == whole
    return whole


def call(**arguments: object) -> ToolCall:
    return ToolCall("edit", json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))


def element(name: str, value: str) -> str:
    return f"<parameter={name}>\n{value}\n</parameter>\n"


def wrapped(parameters: str, name: str = "edit") -> str:
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def test_values_are_decoded_by_the_schema() -> None:
    parameters = element("path", "12") + element("line", "12") + element("force", "True")
    assert parse("Now.\n\n" + wrapped(parameters)) == [Content("Now."), call(path="12", line=12, force=True)]


def test_the_wrapper_may_be_missing() -> None:
    text = f"<function=edit>\n{element('line', '1')}</function>"
    assert parse(text + "\n" + text + " so") == [call(line=1), call(line=1), Content("so")]


def test_a_function_may_have_no_parameters() -> None:
    assert parse(wrapped("", "now")) == [ToolCall("now", "{}")]


def test_arguments_may_be_written_as_json() -> None:
    text = '<function=edit>{"line": 1, "path": "</function>"}</function>'
    assert parse(text) == [call(line=1, path="</function>")]


def test_raw_text_keeps_entities_indentation_and_escapes() -> None:
    value = '    if a &lt; b:\n\tprint("\\n")  \n'
    assert parse(wrapped(element("path", value))) == [call(path=value)]


def test_exactly_one_line_break_is_removed_at_either_end() -> None:
    assert parse(wrapped("<parameter=path>\n\na\n\n</parameter>")) == [call(path="\na\n")]
    assert parse(wrapped("<parameter=path>a</parameter>")) == [call(path="a")]


@pytest.mark.parametrize(
    "value",
    [
        "a</parameter>b",
        "<parameter=x>",
        "</tool_call>",
        "</parameter></tool_call>",
        "</function>",
        "</parameter>\n</function>\nand on",
        "<tool_call>\n<function=now>\n</function>\n</tool_call> is how",
    ],
)
def test_a_value_may_contain_closing_tags(value: str) -> None:
    assert parse(wrapped(element("path", value) + element("line", "2"))) == [call(path=value, line=2)]


def test_an_array_of_edits_is_not_the_envelope() -> None:
    edits = [{"name": "now", "arguments": {}}, {"old": "<a>", "new": "é"}]
    assert parse(wrapped(element("edits", json.dumps(edits)))) == [call(edits=edits)]


def test_one_wrapper_may_hold_several_calls() -> None:
    one = f"<function=edit>\n{element('line', '1')}</function>\n"
    assert parse(f"<tool_call>\n{one}{one}</tool_call>") == [call(line=1), call(line=1)]


def test_a_forgotten_closer_does_not_swallow_the_next_call() -> None:
    half = wrapped(element("line", "1")).removesuffix("</tool_call>")
    assert parse(half + wrapped(element("line", "2"))) == [call(line=1), call(line=2)]
    assert parse(half + "Done.") == [call(line=1), Content("Done.")]


@pytest.mark.parametrize("end", ["</function>\n</tool", "</function>", "</func", "", "\n"])
def test_a_call_cut_off_after_a_parameter_is_a_call(end: str) -> None:
    text = "<tool_call>\n<function=edit>\n<parameter=line>\n1\n</parameter>" + end
    parts = parse(text)
    if end == "</func":
        assert parts == [Content(text)]
    else:
        assert parts[0] == call(line=1)


@pytest.mark.parametrize(
    "text",
    [
        wrapped(element("line", "1"), "nobody"),
        "<tool_call>\n<function=edit>\n<parameter=path>\ncut off in the mid",
        "<tool_call>\n<function=edit>\n<parameter=pa",
        "<tool_call>\n<function=ed",
        "<function=",
        "<tool_call> and <function= are tags, </function> is one too",
    ],
)
def test_what_is_no_call_is_content_unchanged(text: str) -> None:
    assert parse(text) == [Content(text)]


def test_a_call_is_found_after_a_broken_one() -> None:
    broken = "<tool_call>\n<function=edit>\n<parameter=path>\nno end\n</function>\n</tool_call>"
    assert parse(f"{broken}\n{wrapped('', 'now')}") == [Content(broken), ToolCall("now", "{}")]
