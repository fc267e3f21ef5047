import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import ToolCall
from routes.tools.format import Calls, Incomplete, NotMarkup
from routes.tools.longcat import FORMATS, Longcat, detects

LONGCAT = Longcat()
TOOLS = {
    "f": {"properties": {"s": {"type": "string"}, "t": {"type": "string"}, "n": {"type": "integer"}, "o": {}}},
    "g": {},
}
OPEN, CLOSE = "<longcat_tool_call>", "</longcat_tool_call>"

texts = st.text() | st.sampled_from([CLOSE, "</longcat_arg_value>", "<longcat_arg_key>", OPEN + "f" + CLOSE])
structures = st.recursive(
    st.integers() | st.booleans() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "s": texts,
        "t": texts,
        "n": st.integers(),
        "o": st.lists(structures) | st.dictionaries(st.text(), structures),
    },
)


def one(name: str, given: dict[str, object]) -> str:
    """A call as the chat template writes it."""
    lines = [
        f"<longcat_arg_key>{key}</longcat_arg_key>\n"
        f"<longcat_arg_value>{value if isinstance(value, str) else json.dumps(value)}</longcat_arg_value>\n"
        for key, value in given.items()
    ]
    return f"{OPEN}{name}\n{''.join(lines)}{CLOSE}"


def decoded(scan: object) -> list[tuple[str, object]]:
    assert isinstance(scan, Calls)
    return [(call.name, json.loads(call.arguments)) for call in scan.calls]


def test_values_follow_the_schema() -> None:
    text = (
        "<longcat_tool_call>f\n<longcat_arg_key>s</longcat_arg_key>\n<longcat_arg_value>12</longcat_arg_value>\n"
        "<longcat_arg_key>n</longcat_arg_key>\n<longcat_arg_value>12</longcat_arg_value>\n"
        '<longcat_arg_key>o</longcat_arg_key>\n<longcat_arg_value>{"a": [1]}</longcat_arg_value>\n</longcat_tool_call>'
    )
    assert LONGCAT.scan(text + "more", TOOLS, False) == Calls(
        (ToolCall("f", '{"s":"12","n":12,"o":{"a":[1]}}'),), len(text)
    )


def test_a_call_without_arguments_is_a_call() -> None:
    assert LONGCAT.scan(f"{OPEN}g\n{CLOSE}", TOOLS, False) == Calls((ToolCall("g", "{}"),), len(OPEN + CLOSE) + 2)


def test_a_call_may_be_a_json_object() -> None:
    text = f'{OPEN}\n{{"name": "g", "arguments": {{"n": 1}}}}\n{CLOSE}'
    assert LONGCAT.scan(text, TOOLS, False) == Calls((ToolCall("g", '{"n":1}'),), len(text))


def test_calls_in_a_row_are_taken_one_by_one() -> None:
    first = one("g", {"n": 1})
    assert LONGCAT.scan(first + one("g", {}), TOOLS, False) == Calls((ToolCall("g", '{"n":1}'),), len(first))


@pytest.mark.parametrize("value", [CLOSE, "a</longcat_arg_value>b", f"{OPEN}g{CLOSE}", "x</longcat_arg_value>"])
def test_a_closing_tag_inside_a_value_does_not_end_it(value: str) -> None:
    assert decoded(LONGCAT.scan(one("f", {"s": value}), TOOLS, False)) == [("f", {"s": value})]


def test_a_function_that_nobody_offered_is_content() -> None:
    text = one("h", {"n": 1})
    assert LONGCAT.scan(text, TOOLS, False) == NotMarkup(len(text))


@pytest.mark.parametrize("rest", ["", " ", "</longcat_tool_", "<longcat_arg_k"])
def test_a_call_that_was_cut_off_behind_an_argument_is_closed(rest: str) -> None:
    text = f"{OPEN}g<longcat_arg_key>n</longcat_arg_key><longcat_arg_value>1</longcat_arg_value>"
    scan = LONGCAT.scan(text + rest, TOOLS, True)
    assert decoded(scan) == [("g", {"n": 1})]


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "g",
        "g<longcat_arg",
        "g<longcat_arg_key>n",
        "g<longcat_arg_key>n</longcat_arg_key><longcat_arg_value>ha",
        "{",
    ],
)
def test_a_call_that_was_cut_off_too_early_is_content(rest: str) -> None:
    assert LONGCAT.scan(OPEN + rest, TOOLS, False) == Incomplete()
    assert LONGCAT.scan(OPEN + rest, TOOLS, True) == NotMarkup(len(OPEN))


@pytest.mark.parametrize("rest", [" is a tag.", "<b>", "g<longcat_arg_key>n</longcat_arg_key>1", CLOSE])
def test_what_is_no_call_is_content(rest: str) -> None:
    assert LONGCAT.scan(OPEN + rest, TOOLS, True) == NotMarkup(len(OPEN))


def test_a_long_argument_survives() -> None:
    content = 'é"\\\n}{</longcat_tool_call></longcat_arg_value>' * 3000
    assert decoded(LONGCAT.scan(one("f", {"s": content}), TOOLS, False)) == [("f", {"s": content})]


@given(arguments)
def test_rendered_calls_are_read_back(made: dict[str, object]) -> None:
    text = one("f", made)
    scan = LONGCAT.scan(text, TOOLS, False)
    assert decoded(scan) == [("f", made)]
    assert isinstance(scan, Calls)
    assert scan.end == len(text)
    assert LONGCAT.scan(text + "<", TOOLS, True) == scan
    for end in range(len(OPEN), len(text)):
        assert LONGCAT.scan(text[:end], TOOLS, False) == Incomplete()


@given(st.lists(st.sampled_from([*LONGCAT.markers, "g", "n", "{", "}", '"', "\n"]) | st.text()))
def test_garbage_never_raises(pieces: list[str]) -> None:
    text = OPEN + "".join(pieces)
    LONGCAT.scan(text, TOOLS, False)
    scan = LONGCAT.scan(text, TOOLS, True)
    assert isinstance(scan, Calls | NotMarkup)
    assert 1 <= scan.end <= len(text)


def test_the_family_is_known_by_its_opener() -> None:
    assert detects(f"…{OPEN}…", frozenset()) is FORMATS[0]
    assert detects("", frozenset({OPEN})) is FORMATS[0]
    assert detects("<tool_call>", frozenset()) is None
