import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import ToolCall
from routes.tools.format import Calls, Incomplete, NotMarkup
from routes.tools.llama import FORMATS, LLAMA, detects

TOOLS = {"get_weather": {}, "f": {}, "a.b": {}}
TAG = "<|python_tag|>"

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
closing = st.sampled_from(["</function>", '"}; {', "'", '"', "\\"])
arguments = st.dictionaries(st.text(), values | closing, max_size=4)
calls = st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), arguments), min_size=1, max_size=3)


def objects(made: list[tuple[str, dict[str, object]]]) -> str:
    return "; ".join(json.dumps({"name": name, "parameters": given}) for name, given in made)


def element(name: str, given: dict[str, object]) -> str:
    return f"<function={name}>{json.dumps(given)}</function>"


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


def test_a_long_argument_survives() -> None:
    content = "é\"\\\n}{)]</function>'" * 6000
    made: list[tuple[str, dict[str, object]]] = [("f", {"x": content})]
    for text in (objects(made), element("f", {"x": content})):
        assert decoded(LLAMA.scan(text, TOOLS, True)) == made


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


pieces = st.lists(
    st.sampled_from([*LLAMA.markers, *'{}[]()"\\:,;=-\n', "f", '"name"', '"parameters"', "1"]) | st.text()
)


@given(st.sampled_from([*LLAMA.openers, *LLAMA.bare]), pieces)
def test_garbage_never_raises(opener: str, rest: list[str]) -> None:
    text = opener + "".join(rest)
    LLAMA.scan(text, TOOLS, False)
    scan = LLAMA.scan(text, TOOLS, True)
    assert isinstance(scan, Calls | NotMarkup)
    assert 1 <= scan.end <= len(text)


def test_the_family_is_known_by_template_or_tokens() -> None:
    assert FORMATS == (LLAMA,)
    template = '{"name": function name, "parameters": dictionary of argument name and its value}'
    assert detects(template, frozenset()) is LLAMA
    assert detects("", frozenset({TAG})) is LLAMA
    assert detects("<tool_call>", frozenset({"<|eot_id|>"})) is None
