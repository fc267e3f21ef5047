import json

import pytest

from routes.parts import Content, Part, ToolCall
from routes.tools.format import Tools
from routes.tools.minicpm import MINICPM, entities_decoded
from tests.routes.tools.cutting import split

TOOLS: Tools = {"f": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}, "now": {}}


def parse(text: str) -> list[Part]:
    """What comes out however the text is cut."""
    whole = split([text], MINICPM, TOOLS)
    assert split(text, MINICPM, TOOLS) == whole
    return whole


def call(**arguments: object) -> ToolCall:
    return ToolCall("f", json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))


def function(parameters: str, name: str = "f") -> str:
    return f'<function name="{name}">{parameters}</function>'


def test_values_are_decoded_by_the_schema() -> None:
    text = function('<param name="s">1</param>\n<param name="n">1</param>')
    assert parse(f"Now. {text}\n{function('', 'now')}") == [Content("Now."), call(s="1", n=1), ToolCall("now", "{}")]


def test_names_may_be_quoted_in_other_ways() -> None:
    text = "<function name='f'><param name=n>1</param><param name='a&amp;b'>x</param></function>"
    assert parse(text) == [ToolCall("f", '{"n":1,"a&b":"x"}')]


def test_entities_are_decoded_outside_of_cdata_only() -> None:
    assert parse(function('<param name="s">a &lt; b &amp;&#233;</param>')) == [call(s="a < b &é")]
    assert parse(function('<param name="s"><![CDATA[a &lt; b]]></param>')) == [call(s="a &lt; b")]


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("&quot;&apos;&gt;", "\"'>"),
        ("&#x1F600;&#65;", "😀A"),
        ("&amp;lt;", "&lt;"),
        ("?a=1&copy=2&lt", "?a=1&copy=2&lt"),
        ("&#xD800;&#1114112;", "&#xD800;&#1114112;"),
    ],
)
def test_entities_of_xml_and_no_others_are_decoded(text: str, decoded: str) -> None:
    assert entities_decoded(text) == decoded


@pytest.mark.parametrize(
    "value",
    [
        "\n  kept \n",
        "</param>",
        "</function>",
        '</param><param name="n">5</param></function>',
        "]]",
        "<![CDATA[",
    ],
)
def test_a_cdata_section_may_contain_anything(value: str) -> None:
    text = function(f'<param name="s"> <![CDATA[{value}]]>\n</param><param name="n">1</param>')
    assert parse(text) == [call(s=value, n=1)]


def test_a_split_cdata_section_is_put_together() -> None:
    assert parse(function('<param name="s"><![CDATA[a]]]]><![CDATA[>b]]></param>')) == [call(s="a]]>b")]


def test_a_call_cut_off_after_a_parameter_is_a_call() -> None:
    assert parse('<function name="f"><param name="n">1</param>') == [call(n=1)]


@pytest.mark.parametrize(
    "text",
    [
        function('<param name="n">1</param>', "nobody"),
        '<function name="f"><param name="s">cut off in the mid',
        '<function name="f"><param name="s"><![CDATA[cut off]]',
        '<function name="f"><param name="s"><![CDATA[a</param></function>',
        '<function name="f',
        "<function name=",
        'In <function name="…"> the name stands.',
    ],
)
def test_what_is_no_call_is_content_unchanged(text: str) -> None:
    assert parse(text) == [Content(text)]
