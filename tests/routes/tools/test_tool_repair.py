import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.tools.repair import dumps, find_outside, json_end, loads, repair

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
containers = st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("```\n[1, 2]\n```", [1, 2]),
        ('Sure, here it is: {"a": 1}', {"a": 1}),
        ('Sure:\n```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": 1} That was it.', {"a": 1}),
        ("{'a': 'it\\'s \"so\"'}", {"a": 'it\'s "so"'}),
        ('{"a": [1, 2,], "b": 3,}', {"a": [1, 2], "b": 3}),
        ('{"a": {"b": [1, 2', {"a": {"b": [1, 2]}}),
        ('{"a": [{"b": 1}, {"b": 2}', {"a": [{"b": 1}, {"b": 2}]}),
        ('{"a": [1, 2}', {"a": [1, 2]}),
        ('{"a": 1}}}', {"a": 1}),
        ('{"a": True, "b": False, "c": None}', {"a": True, "b": False, "c": None}),
        ('{"a": "True, None", "b": True}', {"a": "True, None", "b": True}),
        ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
        ("{'a': 'one\ntwo'}", {"a": "one\ntwo"}),
        ("{'path': 'C:\\dir', 'tab': 'a\\tb', 'e': '\\u00e9'}", {"path": "C:\\dir", "tab": "a\tb", "e": "é"}),
        ("{a: 1, b_c: 'x'}", {"a": 1, "b_c": "x"}),
        ('{"a": -1.5e3,}', {"a": -1500.0}),
        ("{}", {}),
        ("[]", []),
    ],
)
def test_what_was_meant_is_read(text: str, meant: object) -> None:
    assert repair(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "12",
        '"text"',
        '{"a": "no end',
        "{'a': 'no end",
        '{"a": 1, "b":',
        '{"a"',
        '{"a": nonsense}',
        '{"a": 1 "b": 2}',
        '{"a": 1.2.3}',
        '{"a": NaN}',
        '{"a": 1e999}',
        "```",
        '{"a": ' * 5000,
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
    ],
)
def test_what_cannot_be_told_is_none(text: str) -> None:
    assert repair(text) is None


@given(containers)
def test_json_is_read_as_it_is(value: object) -> None:
    assert repair(json.dumps(value)) == value


@given(containers)
def test_json_ends_where_it_ends(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert json_end("ab" + text + '}]"', 2) == len(text) + 2
    assert all(json_end(text[:end], 0) is None for end in range(len(text)))


def test_brackets_and_escaped_quotes_in_strings_do_not_end_json() -> None:
    text = r'{"a": "}\"}]\\", "b": ["]"]} rest'
    assert json_end(text, 0) == len(text) - len(" rest")


def test_a_literal_in_a_string_is_not_found() -> None:
    assert find_outside('{"a": "<x>"} <x>', "<x>", 0) == 13
    assert find_outside('{"a": "<x>"}', "<x>", 0) is None
    assert find_outside('{"a": "<x> <x>', "<x>", 0) is None
    assert find_outside('{"a": "\\"<x>"}"<x>"<x>', "<x>", 0) == 19
    assert find_outside("{<x>", "<x>", 0) == 1


@given(st.text(alphabet="{}[]\"'\\:,.-0eEtrun aN\n`", max_size=60))
def test_garbage_never_raises(text: str) -> None:
    value = repair(text)
    if value is not None:
        assert isinstance(value, dict | list)
        assert loads(dumps(value)) == value


def test_json_text_is_compact_and_keeps_characters_as_they_are() -> None:
    assert dumps({"a": ["é", 1.5, None]}) == '{"a":["é",1.5,null]}'


def test_half_a_surrogate_pair_stays_an_escape() -> None:
    text = dumps(loads('{"a": "\\ud83d", "b": "é"}'))
    assert text.encode() == b'{"a":"\\ud83d","b":"\\u00e9"}'


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "{", "[" * 100_000])
def test_text_that_json_cannot_carry_on_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        loads(text)


def test_a_value_that_json_cannot_carry_is_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (math.nan, deep):
        with pytest.raises(ValueError):
            dumps(value)
