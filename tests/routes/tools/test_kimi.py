import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import ToolCall
from routes.tools.format import Calls, Incomplete, NotMarkup
from routes.tools.kimi import FORMATS, Kimi, detects

KIMI = Kimi()
TOOLS = {"get_weather": {}, "f": {}, "a.b:c": {}}
OPEN = "<|tool_calls_section_begin|>"
CLOSE = "<|tool_calls_section_end|>"

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
arguments = st.dictionaries(st.text() | st.just("<|tool_call_end|>"), values | st.just(CLOSE), max_size=4)
calls = st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), arguments), min_size=1, max_size=3)


def one(name: str, text: str, index: int = 0) -> str:
    return f"<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>{text}<|tool_call_end|>"


def decoded(scan: object) -> list[tuple[str, object]]:
    assert isinstance(scan, Calls)
    return [(call.name, json.loads(call.arguments)) for call in scan.calls]


def test_a_section_gives_its_calls() -> None:
    text = OPEN + one("get_weather", '{"city": "Paris"}') + one("f", "{}", 1) + CLOSE
    expected = (ToolCall("get_weather", '{"city":"Paris"}'), ToolCall("f", "{}"))
    assert KIMI.scan(text + " more", TOOLS, False) == Calls(expected, len(text))


def test_whitespace_around_everything_is_no_matter() -> None:
    text = (
        f"{OPEN}\n<|tool_call_begin|> functions.f:0 \n<|tool_call_argument_begin|>\n"
        f'{{"n": 1}}\n<|tool_call_end|>\n{CLOSE}'
    )
    assert KIMI.scan(text, TOOLS, False) == Calls((ToolCall("f", '{"n":1}'),), len(text))


@pytest.mark.parametrize("head", ["functions.f:0", "f:12", "functions.f", "f"])
def test_prefix_and_index_of_a_name_may_be_missing(head: str) -> None:
    text = f"{OPEN}<|tool_call_begin|>{head}<|tool_call_argument_begin|>{{}}<|tool_call_end|>{CLOSE}"
    assert KIMI.scan(text, TOOLS, False) == Calls((ToolCall("f", "{}"),), len(text))


def test_a_closing_marker_inside_a_string_does_not_end_the_call() -> None:
    text = OPEN + one("f", json.dumps({"x": f"<|tool_call_end|>{CLOSE}"})) + CLOSE
    assert isinstance(KIMI.scan(text[: text.index(CLOSE) + len(CLOSE)], TOOLS, False), Incomplete)
    assert decoded(KIMI.scan(text, TOOLS, False)) == [("f", {"x": f"<|tool_call_end|>{CLOSE}"})]


def test_a_call_outside_of_a_section_counts() -> None:
    text = one("f", '{"n": 1}')
    assert KIMI.scan(text, TOOLS, False) == Incomplete()
    assert KIMI.scan(text, TOOLS, True) == Calls((ToolCall("f", '{"n":1}'),), len(text))


def test_a_function_that_nobody_offered_is_content() -> None:
    text = OPEN + one("g", "{}")
    assert KIMI.scan(text + CLOSE, TOOLS, False) == NotMarkup(len(text))


def test_calls_before_one_that_nobody_offered_are_taken() -> None:
    first, second = OPEN + one("f", "{}"), one("g", "{}")
    assert KIMI.scan(first + second + CLOSE, TOOLS, False) == Calls((ToolCall("f", "{}"),), len(first))
    assert KIMI.scan(second + CLOSE, TOOLS, False) == NotMarkup(len(second))


def test_broken_arguments_are_repaired() -> None:
    text = OPEN + one("f", "{'n': True,}") + CLOSE
    assert decoded(KIMI.scan(text, TOOLS, False)) == [("f", {"n": True})]


def test_arguments_beyond_repair_are_content() -> None:
    text = OPEN + one("f", "{n n n}") + CLOSE
    assert KIMI.scan(text, TOOLS, True) == NotMarkup(len(OPEN) + len("<|tool_call_begin|>"))


def test_a_call_that_was_cut_off_is_closed() -> None:
    text = OPEN + one("f", "{}") + '<|tool_call_begin|>functions.f:1<|tool_call_argument_begin|>{"a": {"b": 1}'
    assert KIMI.scan(text, TOOLS, False) == Incomplete()
    assert KIMI.scan(text, TOOLS, True) == Calls((ToolCall("f", "{}"), ToolCall("f", '{"a":{"b":1}}')), len(text))


@pytest.mark.parametrize("rest", ['{"a": "half', "{", "", '{"a"'])
def test_a_call_that_was_cut_off_within_a_value_is_content(rest: str) -> None:
    text = f"{OPEN}<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{rest}"
    assert KIMI.scan(text, TOOLS, True) == NotMarkup(len(OPEN) + len("<|tool_call_begin|>"))


def test_a_section_without_calls_is_content() -> None:
    assert KIMI.scan(OPEN + " hello", TOOLS, False) == NotMarkup(len(OPEN) + 1)
    assert KIMI.scan(OPEN + CLOSE, TOOLS, False) == NotMarkup(len(OPEN + CLOSE))
    assert KIMI.scan(OPEN, TOOLS, True) == NotMarkup(len(OPEN))


def test_a_long_argument_survives() -> None:
    content = 'é"\\\n}{<|tool_call_end|>' * 5000
    text = OPEN + one("f", json.dumps({"x": content}, ensure_ascii=False)) + CLOSE
    assert decoded(KIMI.scan(text, TOOLS, False)) == [("f", {"x": content})]


@given(calls)
def test_rendered_calls_are_read_back(made: list[tuple[str, dict[str, object]]]) -> None:
    text = OPEN + "".join(one(name, json.dumps(given), index) for index, (name, given) in enumerate(made)) + CLOSE
    scan = KIMI.scan(text, TOOLS, False)
    assert decoded(scan) == made
    assert scan == Calls(scan.calls, len(text)) if isinstance(scan, Calls) else False
    assert KIMI.scan(text + "<", TOOLS, True) == scan


@given(arguments)
def test_markup_is_incomplete_until_its_last_character(given: dict[str, object]) -> None:
    text = OPEN + one("f", json.dumps(given)) + CLOSE
    for end in range(len(OPEN), len(text)):
        assert KIMI.scan(text[:end], TOOLS, False) == Incomplete()


@given(
    st.lists(st.sampled_from([*KIMI.markers, "f", "functions.f:0", "{", "}", '"', "[", ":1", " ", "\\"]) | st.text())
)
def test_garbage_never_raises(pieces: list[str]) -> None:
    text = KIMI.openers[0] + "".join(pieces)
    KIMI.scan(text, TOOLS, False)
    scan = KIMI.scan(text, TOOLS, True)
    assert isinstance(scan, Calls | NotMarkup)
    assert 1 <= scan.end <= len(text)


def test_the_family_is_known_by_its_section() -> None:
    assert detects(f"…{OPEN}…", frozenset()) is FORMATS[0]
    assert detects("", frozenset({OPEN})) is FORMATS[0]
    assert detects("<tool_call>", frozenset({"<|im_end|>"})) is None
