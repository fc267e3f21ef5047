import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import ToolCall
from routes.tools.format import Calls, Incomplete, NotMarkup
from routes.tools.llama import FORMATS, LFM2, LLAMA, PYTHONIC, detects

TOOLS = {"get_weather": {}, "f": {}, "a.b": {}}
TAG = "<|python_tag|>"
START, END = "<|python_start|>", "<|python_end|>"

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
closing = st.sampled_from([END, "</function>", ")]", '"}; {', "'", '"', "\\"])
arguments = st.dictionaries(st.text(), values | closing, max_size=4)
keywords = st.sampled_from(["city", "n", "_x", "größe"])
named = st.dictionaries(keywords, values | closing, max_size=4)
calls = st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), arguments), min_size=1, max_size=3)
python_calls = st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), named), min_size=1, max_size=3)


def objects(made: list[tuple[str, dict[str, object]]]) -> str:
    return "; ".join(json.dumps({"name": name, "parameters": given}) for name, given in made)


def element(name: str, given: dict[str, object]) -> str:
    return f"<function={name}>{json.dumps(given)}</function>"


def python(made: list[tuple[str, dict[str, object]]]) -> str:
    listed = [f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})" for name, given in made]
    return f"[{', '.join(listed)}]"


def decoded(scan: object) -> list[tuple[str, object]]:
    assert isinstance(scan, Calls)
    return [(call.name, json.loads(call.arguments)) for call in scan.calls]


def test_a_bare_object_is_a_call_once_the_text_has_ended() -> None:
    text = '{"name": "get_weather", "parameters": {"city": "Paris"}}'
    assert LLAMA.scan(text, TOOLS, False) == Incomplete()
    assert LLAMA.scan(text, TOOLS, True) == Calls((ToolCall("get_weather", '{"city":"Paris"}'),), len(text))


def test_objects_behind_the_tag_are_calls() -> None:
    text = TAG + '{"name": "f", "parameters": {"n": 1}}; {"name": "a.b", "arguments": {}}'
    assert LLAMA.scan(text, TOOLS, True) == Calls((ToolCall("f", '{"n":1}'), ToolCall("a.b", "{}")), len(text))


def test_text_behind_the_objects_is_left() -> None:
    text = '{"name": "f", "parameters": {}}'
    assert LLAMA.scan(text + " Done.", TOOLS, False) == Calls((ToolCall("f", "{}"),), len(text))
    assert LLAMA.scan(text + '; {"n": 1}', TOOLS, True) == Calls((ToolCall("f", "{}"),), len(text))


def test_an_element_is_a_call() -> None:
    text = '<function=get_weather>{"city": "</function>"}</function>'
    assert LLAMA.scan(text[: text.index("</") + 11], TOOLS, False) == Incomplete()
    assert LLAMA.scan(text + "<", TOOLS, False) == Calls(
        (ToolCall("get_weather", '{"city":"</function>"}'),), len(text)
    )


@pytest.mark.parametrize("text", ['{"n": 1}', '{"name": "g", "parameters": {}}', '{"name": "f", "parameters": 1}'])
def test_an_object_that_is_no_call_is_content(text: str) -> None:
    assert LLAMA.scan(text, TOOLS, False) == NotMarkup(len(text))


def test_what_is_no_object_is_content() -> None:
    assert LLAMA.scan("{braces} in prose", TOOLS, True) == NotMarkup(1)
    assert LLAMA.scan(TAG + "print(1)", TOOLS, True) == NotMarkup(len(TAG))
    assert LLAMA.scan(TAG, TOOLS, True) == NotMarkup(len(TAG))


def test_an_element_of_a_function_that_nobody_offered_is_content() -> None:
    text = element("g", {})
    assert LLAMA.scan(text, TOOLS, False) == NotMarkup(len(text))
    assert LLAMA.scan("<function=f> is a tag", TOOLS, False) == NotMarkup(len("<function="))


def test_broken_json_is_repaired() -> None:
    assert decoded(LLAMA.scan("{'name': 'f', 'parameters': {'n': True,}}", TOOLS, True)) == [("f", {"n": True})]
    assert decoded(LLAMA.scan("<function=f>{'n': True,}</function>", TOOLS, False)) == [("f", {"n": True})]


@pytest.mark.parametrize(
    "text",
    ['{"name": "f", "parameters": {"n": [1, 2', '<function=f>{"n": [1, 2', '<function=f>{"n": [1, 2]}</func'],
)
def test_a_call_that_was_cut_off_is_closed(text: str) -> None:
    assert LLAMA.scan(text, TOOLS, False) == Incomplete()
    assert LLAMA.scan(text, TOOLS, True) == Calls((ToolCall("f", '{"n":[1,2]}'),), len(text))


@pytest.mark.parametrize("rest", ['{"name": "f"', '{"name": "f", "parameters": {"n": "half', "{"])
def test_a_call_that_was_cut_off_too_early_is_content(rest: str) -> None:
    assert LLAMA.scan(rest, TOOLS, True) == NotMarkup(1)
    assert LLAMA.scan("<function=f>" + rest[:-1], TOOLS, True) == NotMarkup(len("<function="))


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
    content = "é\"\\\n}{)]</function>'" * 6000
    made: list[tuple[str, dict[str, object]]] = [("f", {"x": content})]
    for family, text in ((LLAMA, objects(made)), (LLAMA, element("f", {"x": content})), (PYTHONIC, python(made))):
        assert decoded(family.scan(text, TOOLS, True)) == made


@given(calls, st.sampled_from(["", TAG]))
def test_rendered_objects_are_read_back(made: list[tuple[str, dict[str, object]]], tag: str) -> None:
    text = tag + objects(made)
    scan = LLAMA.scan(text, TOOLS, True)
    assert decoded(scan) == made
    assert LLAMA.scan(text + " x", TOOLS, False) == scan
    for end in range(max(len(tag), 1), len(text) + 1):
        assert LLAMA.scan(text[:end], TOOLS, False) == Incomplete()


@given(st.sampled_from(sorted(TOOLS)), arguments)
def test_rendered_elements_are_read_back(name: str, given: dict[str, object]) -> None:
    text = element(name, given)
    scan = LLAMA.scan(text, TOOLS, False)
    assert decoded(scan) == [(name, given)]
    assert LLAMA.scan(text + "<", TOOLS, True) == scan
    for end in range(len("<function="), len(text)):
        assert LLAMA.scan(text[:end], TOOLS, False) == Incomplete()


@given(python_calls, st.sampled_from([("", ""), (START, END)]))
def test_rendered_lists_are_read_back(made: list[tuple[str, dict[str, object]]], markers: tuple[str, str]) -> None:
    text = markers[0] + python(made) + markers[1]
    scan = PYTHONIC.scan(text, TOOLS, False)
    assert decoded(scan) == made
    assert PYTHONIC.scan(text + "<", TOOLS, True) == scan
    for end in range(max(len(markers[0]), 1), len(text)):
        assert PYTHONIC.scan(text[:end], TOOLS, False) == Incomplete()


pieces = st.lists(
    st.sampled_from([*LLAMA.markers, *PYTHONIC.markers, *'{}[]()"\\:,;=-\n', "f", "'''", '"name"', '"parameters"', "1"])
    | st.text()
)


@given(
    st.sampled_from([(family, opener) for family in (LLAMA, PYTHONIC) for opener in (*family.openers, *family.bare)]),
    pieces,
)
def test_garbage_never_raises(given: tuple[object, str], rest: list[str]) -> None:
    family = LLAMA if given[0] == LLAMA else PYTHONIC
    text = given[1] + "".join(rest)
    family.scan(text, TOOLS, False)
    scan = family.scan(text, TOOLS, True)
    assert isinstance(scan, Calls | NotMarkup)
    assert 1 <= scan.end <= len(text)


def test_the_families_are_known_by_template_or_tokens() -> None:
    assert FORMATS == (LLAMA, PYTHONIC, LFM2)
    assert (
        detects('{"name": function name, "parameters": dictionary of argument name and its value}', frozenset())
        is LLAMA
    )
    assert detects("", frozenset({TAG})) is LLAMA
    assert detects("[func_name1(params_name1=params_value1)]", frozenset({TAG})) is PYTHONIC
    assert detects("", frozenset({START, END})) is PYTHONIC
    assert detects("", frozenset({"<|tool_call_start|>"})) is LFM2
    assert detects("<tool_call>", frozenset({"<|eot_id|>"})) is None
