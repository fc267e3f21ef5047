import json

import pytest

from routes.parts import Content, Part, ToolCall
from routes.tools.format import Tools
from routes.tools.minimax import MINIMAX, MUSE_SPARK, detects
from tests.routes.tools.cutting import split

TOOLS: Tools = {"f": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}, "now": {}}


def parse(text: str) -> list[Part]:
    """What comes out however the text is cut."""
    whole = split([text], MINIMAX, TOOLS)
    assert split(text, MINIMAX, TOOLS) == whole
    return whole


def call(**arguments: object) -> ToolCall:
    return ToolCall("f", json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))


def invoke(name: str = "f", **values: str) -> str:
    parameters = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in values.items())
    return f'<invoke name="{name}">\n{parameters}</invoke>\n'


def wrapped(*invokes: str) -> str:
    return "<minimax:tool_call>\n" + "".join(invokes) + "</minimax:tool_call>"


def test_values_are_decoded_by_the_schema() -> None:
    text = wrapped(invoke(s="1", n="1", o='{"a": [1]}'))
    assert parse(f"Now.\n{text}\n") == [Content("Now."), call(s="1", n=1, o={"a": [1]})]


def test_one_wrapper_holds_several_calls() -> None:
    assert parse(wrapped(invoke(n="1"), invoke("now"), invoke(n="2"))) == [
        call(n=1),
        ToolCall("now", "{}"),
        call(n=2),
    ]


def test_names_may_be_quoted_in_other_ways() -> None:
    text = "<invoke name='f'><parameter name=n>1</parameter></invoke>"
    assert parse(wrapped(text)) == [call(n=1)]


@pytest.mark.parametrize(
    "value",
    [
        " \n kept\n",
        "&lt;",
        "</parameter>",
        "</invoke>",
        "</minimax:tool_call>",
        "</parameter></invoke> not yet",
        '<parameter name="n">',
    ],
)
def test_a_string_is_raw_and_may_contain_tags(value: str) -> None:
    assert parse(wrapped(invoke(s=value, n="2"))) == [call(s=value, n=2)]


def test_calls_before_the_text_was_cut_off_are_calls() -> None:
    half = '<invoke name="f"><parameter name="s">cut off'
    text = wrapped(invoke(n="1")).removesuffix("</minimax:tool_call>")
    assert parse(text) == [call(n=1)]
    assert parse(text + half) == [call(n=1), Content(half)]


@pytest.mark.parametrize(
    "text",
    [
        wrapped(invoke("nobody", n="1")),
        wrapped(invoke(n="1"), invoke("nobody")),
        wrapped(),
        '<minimax:tool_call><invoke name="f"><parameter name="s">cut off',
        "<minimax:tool_call><invoke na",
        "The <minimax:tool_call> tag.",
    ],
)
def test_what_is_no_call_is_content_unchanged(text: str) -> None:
    assert parse(text) == [Content(text)]


def test_muse_spark_has_the_same_tags_with_a_prefix() -> None:
    text = wrapped(invoke(s="a", n="1"))
    for tag in ("invoke", "parameter"):
        text = text.replace(f"<{tag}", f"<atem:{tag}").replace(f"</{tag}", f"</atem:{tag}")
    text = text.replace("minimax:tool_call", "atem:function_calls")
    assert split(text, MUSE_SPARK, TOOLS) == [call(s="a", n=1)]


def test_the_wrapper_tells_the_family() -> None:
    assert detects("… <minimax:tool_call> …", frozenset()) is MINIMAX
    assert detects("", frozenset(["<minimax:tool_call>"])) is MINIMAX
    assert detects("<atem:function_calls>", frozenset()) is MUSE_SPARK
    assert detects("<tool_call>", frozenset()) is None
