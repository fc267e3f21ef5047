import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import ToolCall
from routes.tools.format import Calls, Incomplete, NotMarkup
from routes.tools.pythonic import FORMATS, LFM2, PYTHONIC, detects

TOOLS = {"get_weather": {}, "f": {}, "a.b": {}}
START, END = "<|python_start|>", "<|python_end|>"

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
closing = st.sampled_from([END, ")]", "'", '"', "\\"])
keywords = st.sampled_from(["city", "n", "_x", "größe"])
named = st.dictionaries(keywords, values | closing, max_size=4)
python_calls = st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), named), min_size=1, max_size=3)


def python(made: list[tuple[str, dict[str, object]]]) -> str:
    listed = [f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})" for name, given in made]
    return f"[{', '.join(listed)}]"


def decoded(scan: object) -> list[tuple[str, object]]:
    assert isinstance(scan, Calls)
    return [(call.name, json.loads(call.arguments)) for call in scan.calls]


def test_a_python_list_gives_its_calls() -> None:
    text = '[get_weather(city="Paris", n=-2), f(), a.b(x=[1, {"k": true}], y=None, z=null, w=(1.5, False))]'
    expected = (
        ToolCall("get_weather", '{"city":"Paris","n":-2}'),
        ToolCall("f", "{}"),
        ToolCall("a.b", '{"x":[1,{"k":true}],"y":null,"z":null,"w":[1.5,false]}'),
    )
    assert PYTHONIC.scan(text + " more", TOOLS, False) == Calls(expected, len(text))


def test_a_python_list_may_stand_between_markers() -> None:
    text = f'{START}[f(x=")]{END}")]{END}'
    assert PYTHONIC.scan(text[:-1], TOOLS, False) == Incomplete()
    assert PYTHONIC.scan(text, TOOLS, False) == Calls(
        (ToolCall("f", json.dumps({"x": f")]{END}"}, separators=(",", ":"))),), len(text)
    )
    assert LFM2.scan("<|tool_call_start|>[f()]<|tool_call_end|>", TOOLS, False) == Calls((ToolCall("f", "{}"),), 41)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'a\"b'", 'a"b'),
        ('"line\nbreak"', "line\nbreak"),
        (r'"C:\Users\new dir\x"', "C:\\Users\new dir\\x"),
        (r'"\d+\."', r"\d+\."),
        ('"back\\\nslash"', "back\\\nslash"),
        (r'"\u00e9\x41\"\\"', 'éA"\\'),
        ('"""a "b"\n]c"""', 'a "b"\n]c'),
        ("'''it's'''", "it's"),
        ('"a" "b"', "ab"),
        ('""', ""),
    ],
)
def test_strings_are_read_as_models_write_them(literal: str, value: str) -> None:
    assert decoded(PYTHONIC.scan(f"[f(x={literal})]", TOOLS, False)) == [("f", {"x": value})]


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "[]",
        "[f]",
        '[f("positional")]',
        "[f(**x)]",
        "[f(x=open)]",
        "[f(x=1 + 1)]",
        "[f(x=g())]",
        "[f(x=f'{y}')]",
        "[f(x=b'')]",
        "[f(x={1: 2})]",
        "[f(x=1e999)]",
        "[f(x=-true)]",
        "[g()]",
        "[f(), g()]",
        "[f(x=\0)]",
        '[f(x="' + "\\N{x}" + '\\U00999999")]',
        "[" * 300 + "]" * 300,
        "[f(x=" + "-" * 20_000 + "1)]",
        "[f(x=" + "1+" * 20_000 + "1)]",
        "[f" + ".f" * 20_000 + "()]",
        "[f" + "()" * 20_000 + "]",
    ],
)
def test_a_list_that_holds_anything_but_calls_with_literals_is_content(text: str) -> None:
    assert PYTHONIC.scan(text, TOOLS, True) == NotMarkup(len(text))
    assert PYTHONIC.scan(START + text, TOOLS, True) == NotMarkup(len(START + text))


def test_brackets_that_do_not_match_are_content() -> None:
    assert PYTHONIC.scan("[f(x=1])", TOOLS, False) == NotMarkup(1)
    assert PYTHONIC.scan(START + "f()", TOOLS, False) == NotMarkup(len(START))
    assert PYTHONIC.scan(START, TOOLS, True) == NotMarkup(len(START))


@pytest.mark.parametrize("text", ["[f(n=1), f(m=[2", "[f(n=1), f(m=[2])", START + "[f(n=1), f(m=[2])]<|python"])
def test_a_list_that_was_cut_off_is_closed(text: str) -> None:
    assert PYTHONIC.scan(text, TOOLS, False) == Incomplete() or text.endswith("<|python")
    assert PYTHONIC.scan(text, TOOLS, True) == Calls((ToolCall("f", '{"n":1}'), ToolCall("f", '{"m":[2]}')), len(text))


@pytest.mark.parametrize("rest", [', f(x="half', ", f(", ", f", ', f("x'])
def test_whole_calls_of_a_list_that_was_cut_off_are_taken(rest: str) -> None:
    assert PYTHONIC.scan("[f(n=1)" + rest, TOOLS, True) == Calls((ToolCall("f", '{"n":1}'),), len("[f(n=1)"))


@pytest.mark.parametrize("text", ["[", "[f", "[f(", '[f(x="half', "[f(x", "[f(x=[", "[f(x='''a'"])
def test_a_list_that_was_cut_off_too_early_is_content(text: str) -> None:
    assert PYTHONIC.scan(text, TOOLS, False) == Incomplete()
    assert PYTHONIC.scan(text, TOOLS, True) == NotMarkup(1)


def test_a_long_argument_survives() -> None:
    made: list[tuple[str, dict[str, object]]] = [("f", {"x": "é\"\\\n}{)]</function>'" * 6000})]
    assert decoded(PYTHONIC.scan(python(made), TOOLS, True)) == made


@given(python_calls, st.sampled_from([("", ""), (START, END)]))
def test_rendered_lists_are_read_back(made: list[tuple[str, dict[str, object]]], markers: tuple[str, str]) -> None:
    text = markers[0] + python(made) + markers[1]
    scan = PYTHONIC.scan(text, TOOLS, False)
    assert decoded(scan) == made
    assert PYTHONIC.scan(text + "<", TOOLS, True) == scan
    for end in range(max(len(markers[0]), 1), len(text)):
        assert PYTHONIC.scan(text[:end], TOOLS, False) == Incomplete()


@given(
    st.sampled_from([START, "["]),
    st.lists(st.sampled_from([*PYTHONIC.markers, *'{}[]()"\\:,;=-\n', "f", "'''", "1"]) | st.text()),
)
def test_garbage_never_raises(opener: str, rest: list[str]) -> None:
    text = opener + "".join(rest)
    PYTHONIC.scan(text, TOOLS, False)
    scan = PYTHONIC.scan(text, TOOLS, True)
    assert isinstance(scan, Calls | NotMarkup)
    assert 1 <= scan.end <= len(text)


def test_the_family_is_known_by_template_or_tokens() -> None:
    assert FORMATS == (PYTHONIC, LFM2)
    assert detects("[func_name1(params_name1=params_value1)]", frozenset({"<|python_tag|>"})) is PYTHONIC
    assert detects("", frozenset({START, END})) is PYTHONIC
    assert detects("", frozenset({"<|tool_call_start|>"})) is LFM2
    assert detects("<tool_call>", frozenset({"<|python_tag|>"})) is None
