import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import ToolCall
from routes.tools.format import Calls, Incomplete, NotMarkup
from routes.tools.mistral import FORMATS, MISTRAL, detects

TOOLS = {"get_weather": {}, "f": {}, "a-b.c": {}}
OPEN = "[TOOL_CALLS]"

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
arguments = st.dictionaries(st.text() | st.just(OPEN), values | st.just("[TOOL_CALLS]f[ARGS]{}"), max_size=4)
calls = st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), arguments), min_size=1, max_size=3)


def array(made: list[tuple[str, dict[str, object]]]) -> str:
    return f"{OPEN} {json.dumps([{'name': name, 'arguments': given} for name, given in made])}"


def one(name: str, given: dict[str, object], call_id: str = "") -> str:
    return f"{OPEN}{name}{call_id and '[CALL_ID]' + call_id}[ARGS]{json.dumps(given)}"


def decoded(scan: object) -> list[tuple[str, object]]:
    assert isinstance(scan, Calls)
    return [(call.name, json.loads(call.arguments)) for call in scan.calls]


def test_an_array_gives_its_calls() -> None:
    text = '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "f", "arguments": {}}]'
    expected = (ToolCall("get_weather", '{"city":"Paris"}'), ToolCall("f", "{}"))
    assert MISTRAL.scan(text + " more", TOOLS, False) == Calls(expected, len(text))


def test_arguments_may_be_json_text_and_calls_may_have_ids() -> None:
    text = '[TOOL_CALLS][{"name": "f", "arguments": "{\\"n\\": 1}", "id": "abcdefghi"}]'
    assert MISTRAL.scan(text, TOOLS, False) == Calls((ToolCall("f", '{"n":1}'),), len(text))


def test_a_name_and_json_give_a_call() -> None:
    text = '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}'
    assert MISTRAL.scan(text, TOOLS, False) == Calls((ToolCall("get_weather", '{"city":"Paris"}'),), len(text))


def test_an_id_between_name_and_arguments_is_passed_over() -> None:
    text = '[TOOL_CALLS]f[CALL_ID]x7Yz[ARGS]{"n": 1}'
    assert MISTRAL.scan(text, TOOLS, False) == Calls((ToolCall("f", '{"n":1}'),), len(text))


def test_a_separator_that_was_dropped_on_the_way_is_not_missed() -> None:
    text = '[TOOL_CALLS]f{"n": 1}'
    assert MISTRAL.scan(text, TOOLS, False) == Calls((ToolCall("f", '{"n":1}'),), len(text))


def test_calls_in_a_row_are_taken_one_by_one() -> None:
    first = one("f", {"n": 1})
    assert MISTRAL.scan(first + one("f", {}), TOOLS, False) == Calls((ToolCall("f", '{"n":1}'),), len(first))


def test_the_marker_inside_a_string_begins_no_call() -> None:
    text = one("f", {"x": "[TOOL_CALLS]f[ARGS]{}"})
    assert MISTRAL.scan(text[:-2], TOOLS, False) == Incomplete()
    assert decoded(MISTRAL.scan(text, TOOLS, False)) == [("f", {"x": "[TOOL_CALLS]f[ARGS]{}"})]


def test_a_function_that_nobody_offered_is_content() -> None:
    for text in (one("g", {}), one("g", {}, "id"), array([("g", {"x": 1})]).removesuffix("]")):
        assert MISTRAL.scan(text + "]", TOOLS, False) == NotMarkup(len(text))


def test_calls_of_an_array_before_one_that_nobody_offered_are_taken() -> None:
    text = array([("f", {}), ("g", {})])
    assert MISTRAL.scan(text, TOOLS, False) == Calls((ToolCall("f", "{}"),), text.index(', {"name": "g"'))


def test_broken_json_is_repaired() -> None:
    assert decoded(MISTRAL.scan("[TOOL_CALLS]f[ARGS]{'n': True,}", TOOLS, True)) == [("f", {"n": True})]
    text = "[TOOL_CALLS] [{'name': 'f', 'arguments': {n: None}}]"
    assert decoded(MISTRAL.scan(text, TOOLS, False)) == [("f", {"n": None})]


@pytest.mark.parametrize(
    "text",
    ['[TOOL_CALLS]f[ARGS]{"a": [1, 2', '[TOOL_CALLS] [{"name": "f", "arguments": {"a": [1, 2'],
)  # fmt: skip
def test_a_call_that_was_cut_off_is_closed(text: str) -> None:
    assert MISTRAL.scan(text, TOOLS, False) == Incomplete()
    assert MISTRAL.scan(text, TOOLS, True) == Calls((ToolCall("f", '{"a":[1,2]}'),), len(text))


@pytest.mark.parametrize(
    "rest",
    ["", "f", "f[ARGS]", "f[ARGS]{", 'f[ARGS]{"a": "half', "f[CALL_ID]x", "[", '[{"name": "f"', '[{"name": "f", "argu'],
)
def test_a_call_that_was_cut_off_too_early_is_content(rest: str) -> None:
    assert MISTRAL.scan(OPEN + rest, TOOLS, False) == Incomplete()
    assert MISTRAL.scan(OPEN + rest, TOOLS, True) == NotMarkup(len(OPEN))


def test_whole_calls_before_one_that_was_cut_off_are_taken() -> None:
    text = '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}'
    assert MISTRAL.scan(text + ', {"name": "f"', TOOLS, True) == Calls((ToolCall("f", '{"a":1}'),), len(text))


@pytest.mark.parametrize("rest", [" is a marker", "[ARGS]{}", "f[ARGS]1", "f() and", "[1, 2]", "f[ARGS][1]"])
def test_what_is_no_call_is_content(rest: str) -> None:
    assert MISTRAL.scan(OPEN + rest, TOOLS, False) == NotMarkup(len(OPEN))


def test_an_empty_array_is_content() -> None:
    assert MISTRAL.scan(OPEN + "[] more", TOOLS, False) == NotMarkup(len(OPEN) + 2)


def test_a_long_argument_survives() -> None:
    content = 'é"\\\n}{[TOOL_CALLS]' * 6000
    for text in (one("f", {"x": content}), array([("f", {"x": content})])):
        assert decoded(MISTRAL.scan(text, TOOLS, False)) == [("f", {"x": content})]


@given(calls)
def test_rendered_arrays_are_read_back(made: list[tuple[str, dict[str, object]]]) -> None:
    text = array(made)
    scan = MISTRAL.scan(text, TOOLS, False)
    assert decoded(scan) == made
    assert MISTRAL.scan(text + " x", TOOLS, True) == scan


@given(st.sampled_from(sorted(TOOLS)), arguments, st.sampled_from(["", "abcdefghi", "7"]))
def test_rendered_calls_are_read_back(name: str, given: dict[str, object], call_id: str) -> None:
    text = one(name, given, call_id)
    scan = MISTRAL.scan(text, TOOLS, False)
    assert decoded(scan) == [(name, given)]
    assert MISTRAL.scan(text + " x", TOOLS, True) == scan


@given(arguments)
def test_markup_is_incomplete_until_its_last_character(given: dict[str, object]) -> None:
    for text in (array([("f", given), ("f", {})]), one("f", given), one("f", given, "id")):
        for end in range(len(OPEN), len(text)):
            assert MISTRAL.scan(text[:end], TOOLS, False) == Incomplete()


@given(st.lists(st.sampled_from([*MISTRAL.markers, "f", "{", "}", '"', "[", "]", ":", ",", '"name"']) | st.text()))
def test_garbage_never_raises(pieces: list[str]) -> None:
    text = OPEN + "".join(pieces)
    MISTRAL.scan(text, TOOLS, False)
    scan = MISTRAL.scan(text, TOOLS, True)
    assert isinstance(scan, Calls | NotMarkup)
    assert 1 <= scan.end <= len(text)


def test_the_family_is_known_by_its_marker() -> None:
    assert FORMATS == (MISTRAL,)
    assert detects("…[TOOL_CALLS]…", frozenset()) is MISTRAL
    assert detects("", frozenset({"[TOOL_CALLS]"})) is MISTRAL
    assert detects("<tool_call>", frozenset({"[INST]"})) is None
