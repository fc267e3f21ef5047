import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import ToolCall
from routes.tools.deepseek import DEEPSEEK, DSML, FORMATS, detects
from routes.tools.format import Calls, Incomplete, NotMarkup

Render = Callable[[str, dict[str, object]], str]

TOOLS = {"get_weather": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}, "f": {}}
OPEN, CLOSE = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
DSML_OPEN, DSML_CLOSE = "<｜DSML｜function_calls>", "</｜DSML｜function_calls>"

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
closing = st.sampled_from([CLOSE, END, "```", DSML_CLOSE, "</｜DSML｜invoke>", "</｜DSML｜parameter>", "}"])
arguments = st.dictionaries(st.text(), values | closing, max_size=4)
named = st.dictionaries(st.from_regex(r"[\w.-]+", fullmatch=True), values | closing, max_size=4)


def fenced(name: str, given: dict[str, object]) -> str:
    """A call as V3 and R1 write it."""
    return f"{CALL}function<｜tool▁sep｜>{name}\n```json\n{json.dumps(given, ensure_ascii=False)}\n```{END}"


def plain(name: str, given: dict[str, object]) -> str:
    """A call as V3.1 writes it."""
    return f"{CALL}{name}<｜tool▁sep｜>{json.dumps(given, ensure_ascii=False)}{END}"


def invoke(name: str, given: dict[str, object]) -> str:
    """A call as V3.2 writes it."""
    lines = [
        f'<｜DSML｜parameter name="{key}" string="{str(isinstance(value, str)).lower()}">'
        f"{value if isinstance(value, str) else json.dumps(value)}</｜DSML｜parameter>"
        for key, value in given.items()
    ]
    return "\n".join([f'<｜DSML｜invoke name="{name}">', *lines, "</｜DSML｜invoke>\n"])


def decoded(scan: object) -> list[tuple[str, object]]:
    assert isinstance(scan, Calls)
    return [(call.name, json.loads(call.arguments)) for call in scan.calls]


def test_v3_gives_fenced_calls() -> None:
    text = (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
        '```json\n{"city": "Paris"}\n```<｜tool▁call▁end｜>\n'
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    )
    expected = (ToolCall("get_weather", '{"city":"Paris"}'), ToolCall("f", "{}"))
    assert DEEPSEEK.scan(text + "more", TOOLS, False) == Calls(expected, len(text))


def test_v31_gives_calls_without_a_fence() -> None:
    text = (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜>'
        "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    )
    expected = (ToolCall("get_weather", '{"city":"Paris"}'), ToolCall("f", "{}"))
    assert DEEPSEEK.scan(text, TOOLS, False) == Calls(expected, len(text))


def test_dsml_gives_strings_and_json_values() -> None:
    text = (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
        '<｜DSML｜parameter name="s" string="true">12</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="n" string="false">12</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="o" string="false">{"a": [1, null]}</｜DSML｜parameter>\n'
        '</｜DSML｜invoke>\n<｜DSML｜invoke name="get_weather">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
    )
    expected = (ToolCall("f", '{"s":"12","n":12,"o":{"a":[1,null]}}'), ToolCall("get_weather", "{}"))
    assert DSML.scan(text, TOOLS, False) == Calls(expected, len(text))


def test_dsml_strings_keep_their_whitespace_and_entities() -> None:
    text = DSML_OPEN + invoke("f", {"s": '\n  a &lt; "b"\n'}) + DSML_CLOSE
    assert decoded(DSML.scan(text, TOOLS, False)) == [("f", {"s": '\n  a &lt; "b"\n'})]


def test_a_dsml_parameter_that_does_not_say_what_it_is_follows_the_schema() -> None:
    text = (
        f'{DSML_OPEN}<｜DSML｜invoke name="get_weather"><｜DSML｜parameter name="city">12</｜DSML｜parameter>'
        f'<｜DSML｜parameter name="days" string="false">True</｜DSML｜parameter>'
        f'<｜DSML｜parameter name="days">12</｜DSML｜parameter></｜DSML｜invoke>{DSML_CLOSE}'
    )
    assert decoded(DSML.scan(text, TOOLS, False)) == [("get_weather", {"city": "12", "days": 12})]


@pytest.mark.parametrize("render", [fenced, plain])
def test_a_closing_marker_inside_a_string_does_not_end_the_call(render: Render) -> None:
    text = OPEN + render("f", {"x": f"\n```{END}{CLOSE}"}) + CLOSE
    assert DEEPSEEK.scan(text[: text.index(CLOSE) + len(CLOSE)], TOOLS, False) == Incomplete()
    assert decoded(DEEPSEEK.scan(text, TOOLS, False)) == [("f", {"x": f"\n```{END}{CLOSE}"})]


def test_a_closing_tag_inside_a_value_does_not_end_it() -> None:
    value = "<a></｜DSML｜parameter></｜DSML｜function_calls></｜DSML｜invoke>"
    text = DSML_OPEN + invoke("f", {"x": value}) + DSML_CLOSE
    assert decoded(DSML.scan(text, TOOLS, False)) == [("f", {"x": value})]


def test_a_call_outside_of_a_section_counts() -> None:
    for family, text in ((DEEPSEEK, fenced("f", {})), (DEEPSEEK, plain("f", {})), (DSML, invoke("f", {}))):
        assert family.scan(text, TOOLS, False) == Incomplete()
        assert family.scan(text, TOOLS, True) == Calls((ToolCall("f", "{}"),), len(text))


def test_a_function_that_nobody_offered_is_content() -> None:
    for family, text in (
        (DEEPSEEK, OPEN + fenced("g", {"a": 1})),
        (DEEPSEEK, OPEN + plain("g", {"a": 1})),
        (DSML, DSML_OPEN + invoke("g", {"a": 1}).rstrip()),
    ):
        assert family.scan(text + family.section[1], TOOLS, False) == NotMarkup(len(text))


def test_broken_arguments_are_repaired() -> None:
    for text in (fenced("f", {"n": 1}), plain("f", {"n": 1})):
        broken = OPEN + text.replace('"n": 1', "'n': None,") + CLOSE
        assert decoded(DEEPSEEK.scan(broken, TOOLS, False)) == [("f", {"n": None})]


@pytest.mark.parametrize("rest", ["", "}", "}\n```", "}\n```<｜tool▁", "}<｜tool▁call▁end｜>", "}\n``"])
def test_a_call_that_was_cut_off_is_closed(rest: str) -> None:
    head = f'{OPEN}{CALL}function<｜tool▁sep｜>f\n```json\n{{"a": 1'
    assert DEEPSEEK.scan(head + rest, TOOLS, True) == Calls((ToolCall("f", '{"a":1}'),), len(head + rest))


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "function",
        "function<｜tool▁sep｜>",
        "function<｜tool▁sep｜>f\n```js",
        "f<｜tool▁sep｜>{",
        'f<｜tool▁sep｜>{"a": "h',
    ],
)
def test_a_call_that_was_cut_off_too_early_is_content(rest: str) -> None:
    assert DEEPSEEK.scan(OPEN + CALL + rest, TOOLS, False) == Incomplete()
    assert DEEPSEEK.scan(OPEN + CALL + rest, TOOLS, True) == NotMarkup(len(OPEN + CALL))


@pytest.mark.parametrize(
    "rest", ["", "\n", "\n</｜DSML｜inv", "</｜DSML｜invoke>", "</｜DSML｜invoke>\n</｜DSML｜function_c"]
)
def test_a_dsml_call_that_was_cut_off_behind_an_argument_is_closed(rest: str) -> None:
    text = f'{DSML_OPEN}<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="true">b</｜DSML｜parameter>{rest}'
    assert DSML.scan(text, TOOLS, True) == Calls((ToolCall("f", '{"a":"b"}'),), len(text))


@pytest.mark.parametrize(
    "rest",
    ["", ' name="', ' name="f"', ' name="f">', ' name="f">\n<｜DSML｜parameter name="a" string="true">ha'],
)
def test_a_dsml_call_that_was_cut_off_too_early_is_content(rest: str) -> None:
    text = f"{DSML_OPEN}<｜DSML｜invoke"
    assert DSML.scan(text + rest, TOOLS, False) == Incomplete()
    assert DSML.scan(text + rest, TOOLS, True) == NotMarkup(len(text))


@pytest.mark.parametrize("rest", [" is a tag", '="f">', ' id="f">', ' name="f" .'])
def test_a_dsml_tag_that_is_none_is_content(rest: str) -> None:
    assert DSML.scan("<｜DSML｜invoke" + rest, TOOLS, True) == NotMarkup(len("<｜DSML｜invoke"))


def test_a_long_argument_survives() -> None:
    content = 'é"\\\n}{<｜tool▁calls▁end｜></｜DSML｜parameter>' * 3000
    for family, text in (
        (DEEPSEEK, OPEN + fenced("f", {"x": content}) + CLOSE),
        (DEEPSEEK, OPEN + plain("f", {"x": content}) + CLOSE),
        (DSML, DSML_OPEN + invoke("f", {"x": content}) + DSML_CLOSE),
    ):
        assert decoded(family.scan(text, TOOLS, False)) == [("f", {"x": content})]


@given(st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), arguments, st.sampled_from([fenced, plain])), min_size=1))
def test_rendered_json_calls_are_read_back(made: list[tuple[str, dict[str, object], Render]]) -> None:
    text = OPEN + "".join(render(name, given) for name, given, render in made) + CLOSE
    scan = DEEPSEEK.scan(text, TOOLS, False)
    assert decoded(scan) == [(name, given) for name, given, _ in made]
    assert DEEPSEEK.scan(text + "<", TOOLS, True) == scan


@given(st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), named), min_size=1, max_size=3))
def test_rendered_dsml_calls_are_read_back(made: list[tuple[str, dict[str, object]]]) -> None:
    text = DSML_OPEN + "\n" + "".join(invoke(name, given) for name, given in made) + DSML_CLOSE
    scan = DSML.scan(text, TOOLS, False)
    assert decoded(scan) == made
    assert DSML.scan(text + "<", TOOLS, True) == scan


@given(named)
def test_markup_is_incomplete_until_its_last_character(given: dict[str, object]) -> None:
    for family, text in (
        (DEEPSEEK, OPEN + fenced("f", given) + CLOSE),
        (DEEPSEEK, OPEN + plain("f", given) + CLOSE),
        (DSML, DSML_OPEN + invoke("f", given) + DSML_CLOSE),
    ):
        for end in range(len(family.section[0]), len(text)):
            assert family.scan(text[:end], TOOLS, False) == Incomplete()


@given(
    st.sampled_from([DEEPSEEK, DSML]),
    st.lists(
        st.sampled_from([*DEEPSEEK.markers, *DSML.markers, "f", ' name="f"', ">", "```json", "{", "}", '"']) | st.text()
    ),
)
def test_garbage_never_raises(family: object, pieces: list[str]) -> None:
    assert family in (DEEPSEEK, DSML)
    scanner = DEEPSEEK if family == DEEPSEEK else DSML
    text = scanner.openers[0] + "".join(pieces)
    scanner.scan(text, TOOLS, False)
    scan = scanner.scan(text, TOOLS, True)
    assert isinstance(scan, Calls | NotMarkup)
    assert 1 <= scan.end <= len(text)


def test_the_families_are_known_by_their_tokens() -> None:
    assert FORMATS == (DEEPSEEK, DSML)
    assert detects(f"…{OPEN}…", frozenset()) is DEEPSEEK
    assert detects("", frozenset({OPEN})) is DEEPSEEK
    assert detects("", frozenset({OPEN, "｜DSML｜"})) is DSML
    assert detects(f"…{DSML_OPEN}…", frozenset({OPEN})) is DSML
    assert detects("<tool_call>", frozenset({"<｜User｜>"})) is None
