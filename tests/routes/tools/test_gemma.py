import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import ToolCall
from routes.tools.format import Calls, Incomplete, NotMarkup
from routes.tools.gemma import FORMATS, FUNCTION_GEMMA, GEMMA4, Gemma, detects

TOOLS = {
    "get_weather": {"properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"type": "string"}}}},
    "f": {},
    "a-b.c": {},
}
OPEN, CLOSE = "<|tool_call>", "<tool_call|>"

families = st.sampled_from([GEMMA4, FUNCTION_GEMMA])
strings = st.text().filter(lambda text: GEMMA4.delimiter not in text and FUNCTION_GEMMA.delimiter not in text)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | strings
keys = st.from_regex(r"[A-Za-z_$é][\w.-]*", fullmatch=True)
markers = st.sampled_from([*GEMMA4.markers[:2], *FUNCTION_GEMMA.markers[:2], '}{"'])
values = st.recursive(scalars | markers, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=8)
arguments = st.dictionaries(keys, values, max_size=4)


def rendered(value: object, delimiter: str) -> str:
    """A value as the chat templates of the family write it."""
    if isinstance(value, str):
        return f"{delimiter}{value}{delimiter}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{rendered(item, delimiter)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(rendered(item, delimiter) for item in value) + "]"
    return json.dumps(value)


def one(family: Gemma, name: str, given: dict[str, object]) -> str:
    return f"{family.opener}call:{name}{rendered(given, family.delimiter)}{family.closer}"


def test_gemma4_gives_strings_numbers_and_nested_values() -> None:
    text = (
        '<|tool_call>call:f{key:<|"|>string<|"|>,n:1,nested:{x:-2.5,ok:true,none:null},'
        'list:[<|"|>a<|"|>,2]}<tool_call|>'
    )
    expected = '{"key":"string","n":1,"nested":{"x":-2.5,"ok":true,"none":null},"list":["a",2]}'
    assert GEMMA4.scan(text + "more", TOOLS, False) == Calls((ToolCall("f", expected),), len(text))


def test_function_gemma_gives_strings_and_numbers() -> None:
    text = "<start_function_call>call:get_weather{city:<escape>São Paulo<escape>,n:2}<end_function_call>"
    expected = ToolCall("get_weather", '{"city":"São Paulo","n":2}')
    assert FUNCTION_GEMMA.scan(text, TOOLS, False) == Calls((expected,), len(text))


def test_a_call_without_arguments_is_a_call() -> None:
    text = "<|tool_call>call:a-b.c{}<tool_call|>"
    assert GEMMA4.scan(text, TOOLS, False) == Calls((ToolCall("a-b.c", "{}"),), len(text))


def test_several_calls_may_share_one_pair_of_markers() -> None:
    text = "<|tool_call>call:f{a:1}call:a-b.c{} call:f{}<tool_call|>"
    expected = (ToolCall("f", '{"a":1}'), ToolCall("a-b.c", "{}"), ToolCall("f", "{}"))
    assert GEMMA4.scan(text, TOOLS, False) == Calls(expected, len(text))


def test_calls_in_a_row_are_taken_one_by_one() -> None:
    first = one(GEMMA4, "f", {"a": 1})
    assert GEMMA4.scan(first + one(GEMMA4, "f", {}), TOOLS, False) == Calls((ToolCall("f", '{"a":1}'),), len(first))


def test_a_closing_marker_inside_a_string_does_not_end_the_call() -> None:
    text = one(GEMMA4, "f", {"a": "}<tool_call|>{"})
    assert GEMMA4.scan(text[:-1], TOOLS, False) == Incomplete()
    assert GEMMA4.scan(text, TOOLS, False) == Calls((ToolCall("f", '{"a":"}<tool_call|>{"}'),), len(text))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("city:Paris", {"city": "Paris"}),
        ("city:75001", {"city": "75001"}),
        ("days:[1,true]", {"days": ["1", "true"]}),
        ("n:True,m:None", {"n": True, "m": None}),
        ('"city":"Par\\"is"', {"city": 'Par"is'}),
        ('<|"|>a b<|"|>:1', {"a b": 1}),
        (" city : 1 , n : 2 ,", {"city": "1", "n": 2}),
        ("\ncity:<|\"|>x<|\"|>\n,\nn:[ 1 , 2 ]\n", {"city": "x", "n": [1, 2]}),
    ],
)  # fmt: skip
def test_what_models_write_instead_is_understood(written: str, read: dict[str, object]) -> None:
    scan = GEMMA4.scan(f"{OPEN}call:get_weather{{{written}}}{CLOSE}", TOOLS, False)
    assert isinstance(scan, Calls)
    assert json.loads(scan.calls[0].arguments) == read


@pytest.mark.parametrize("rest", ["", "}", "}}", "}}<tool_call|>", "<tool_call|>", "}<tool_call|>", "}}<tool_"])
def test_missing_brackets_and_closers_are_added_at_the_end(rest: str) -> None:
    text = f"{OPEN}call:f{{a:{{n:1{rest}"
    assert GEMMA4.scan(text, TOOLS, True) == Calls((ToolCall("f", '{"a":{"n":1}}'),), len(text))


@pytest.mark.parametrize("rest", ["", "{", "{a", "{a:", '{a:<|"|>half', "{a:tru", '{a:<|"|>half<tool_call|>'])
def test_a_call_that_was_cut_off_within_a_value_is_content(rest: str) -> None:
    assert GEMMA4.scan(f"{OPEN}call:f{rest}", TOOLS, False) == Incomplete()
    assert GEMMA4.scan(f"{OPEN}call:f{rest}", TOOLS, True) == NotMarkup(len(OPEN))


def test_a_closer_that_was_forgotten_is_not_missed() -> None:
    text = f"{OPEN}call:f{{}}"
    assert GEMMA4.scan(text + " Done.", TOOLS, False) == Calls((ToolCall("f", "{}"),), len(text))


def test_a_function_that_nobody_offered_is_content() -> None:
    text = one(GEMMA4, "g", {"a": one(FUNCTION_GEMMA, "f", {})})
    assert GEMMA4.scan(text, TOOLS, False) == NotMarkup(len(text))


@pytest.mark.parametrize(
    "rest", [" is a marker", "call f", "call:f(a)", 'call:f{a:<|"|>x<|"|> b:2}', "call:f{:1}", "call:f{a:}"]
)
def test_what_is_no_call_is_content(rest: str) -> None:
    assert GEMMA4.scan(OPEN + rest + CLOSE, TOOLS, False) == NotMarkup(len(OPEN))


def test_nesting_without_end_is_content() -> None:
    assert GEMMA4.scan(OPEN + "call:f{a:" + "[" * 100_000, TOOLS, True) == NotMarkup(len(OPEN))


def test_a_long_argument_survives() -> None:
    content = 'é"\\\n}{<tool_call|>' * 6000
    scan = GEMMA4.scan(one(GEMMA4, "f", {"x": content}), TOOLS, False)
    assert isinstance(scan, Calls)
    assert json.loads(scan.calls[0].arguments) == {"x": content}


@given(families, st.sampled_from(sorted(TOOLS)), arguments)
def test_rendered_calls_are_read_back(family: Gemma, name: str, made: dict[str, object]) -> None:
    tools: dict[str, dict[str, object]] = {offered: {} for offered in TOOLS}
    text = one(family, name, made)
    scan = family.scan(text, tools, False)
    assert isinstance(scan, Calls)
    assert [(call.name, json.loads(call.arguments)) for call in scan.calls] == [(name, made)]
    assert scan.end == len(text)
    assert family.scan(text + "<", tools, True) == scan


@given(families, arguments)
def test_markup_is_incomplete_until_its_last_character(family: Gemma, made: dict[str, object]) -> None:
    text = one(family, "f", made)
    for end in range(len(family.opener), len(text)):
        assert family.scan(text[:end], TOOLS, False) == Incomplete()


@given(
    families, st.lists(st.sampled_from([*GEMMA4.markers, "call:", "f", "{", "}", '"', "[", "]", ":", ","]) | st.text())
)
def test_garbage_never_raises(family: Gemma, pieces: list[str]) -> None:
    text = family.opener + "".join(pieces)
    family.scan(text, TOOLS, False)
    scan = family.scan(text, TOOLS, True)
    assert isinstance(scan, Calls | NotMarkup)
    assert 1 <= scan.end <= len(text)


def test_the_family_is_known_by_its_opener() -> None:
    assert FORMATS == (GEMMA4, FUNCTION_GEMMA)
    assert detects("…<|tool_call>…", frozenset()) is GEMMA4
    assert detects("", frozenset({"<start_function_call>"})) is FUNCTION_GEMMA
    assert detects("<tool_call>", frozenset({"<start_of_turn>"})) is None
