import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.tools.schema import decode, decode_arguments

STRING = {"type": "string"}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}}
ROOT = {"type": "object", "$defs": {"Point": POINT, "Word": STRING, "Loop": {"$ref": "#/$defs/Loop"}}}


@given(st.text())
def test_a_string_stays_exactly_as_it_was_written(value: str) -> None:
    assert decode(value, STRING) == value


@pytest.mark.parametrize(
    ("value", "schema", "meant"),
    [
        ("  &lt;b&gt;\\n\n", STRING, "  &lt;b&gt;\\n\n"),
        ("5", STRING, "5"),
        ('{"a": 1}', STRING, '{"a": 1}'),
        ("null", STRING, "null"),
        ("5", {"type": "integer"}, 5),
        (" 5\n", {"type": "integer"}, 5),
        ('"5"', {"type": "integer"}, 5),
        ("five", {"type": "integer"}, "five"),
        ("1.50", {"type": "number"}, 1.5),
        ("true", {"type": "boolean"}, True),
        ("True", {"type": "boolean"}, True),
        ("False", {"type": "boolean"}, False),
        ("maybe", {"type": "boolean"}, "maybe"),
        ("null", {"type": "null"}, None),
        ("None", {"type": "null"}, None),
        ('[1, "a"]', {"type": "array"}, [1, "a"]),
        ("['a', True, None,]", {"type": "array"}, ["a", True, None]),
        ("{'a': {'b': 1}}", {"type": "object"}, {"a": {"b": 1}}),
        ('"[1, 2]"', {"type": "array"}, [1, 2]),
        ('{"a": "no end', {"type": "object"}, '{"a": "no end'),
        ("5", {"type": ["string", "null"]}, "5"),
        ("null", {"type": ["string", "null"]}, None),
        ("[1]", {"type": ["string", "array"]}, [1]),
        ('"quoted"', {"type": ["string", "null"]}, '"quoted"'),
        ("5", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 5),
        ("None", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ("5", {"anyOf": [STRING, {"type": "null"}]}, "5"),
        ("5", {"oneOf": [STRING, {"type": "number"}]}, 5),
        ("5", {"allOf": [STRING, {"description": "a word"}]}, "5"),
        ("5", {"anyOf": [STRING, {}]}, 5),
        ("5", {"enum": ["5", "6"]}, "5"),
        ("5", {"enum": [5, 6]}, 5),
        ("red", {"enum": ["red", None]}, "red"),
        ("null", {"enum": ["red", None]}, None),
        ("7", {"enum": ["5", "6"]}, "7"),
        ("1", {"const": "1"}, "1"),
        ("1", {"const": 1}, 1),
        ('{"x": 1}', {"properties": {}}, {"x": 1}),
        ("[1]", {"items": STRING}, [1]),
        ('{"x": 1}', {"$ref": "#/$defs/Point"}, {"x": 1}),
        ("5", {"$ref": "#/$defs/Word"}, "5"),
        ("5", {"anyOf": [{"$ref": "#/$defs/Word"}, {"type": "null"}]}, "5"),
        ("5", {"$ref": "#/$defs/Loop"}, 5),
        ("5", {"$ref": "#/nowhere"}, 5),
        ("5", {"$ref": "elsewhere.json"}, 5),
        ("5", {"type": "str"}, "5"),
        ("5", {"type": "no such type"}, 5),
    ],
)
def test_a_value_is_what_its_schema_says(value: str, schema: object, meant: object) -> None:
    decoded = decode(value, schema, ROOT)
    assert decoded == meant
    assert type(decoded) is type(meant)


@pytest.mark.parametrize("schema", [None, True, {}, {"description": "anything"}, "no schema"])
@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("5", 5),
        ("true", True),
        ("null", None),
        ("[1]", [1]),
        ('{"a": 1}', {"a": 1}),
        ("word", "word"),
        ('"quoted"', '"quoted"'),
        (" word\n", " word\n"),
        ("", ""),
        ("[not json", "[not json"),
        ("1e999", "1e999"),
    ],
)
def test_without_a_schema_json_is_decoded_and_the_rest_stays(schema: object, value: str, meant: object) -> None:
    assert decode(value, schema) == meant


def test_arguments_are_decoded_by_their_properties() -> None:
    parameters = {**ROOT, "properties": {"s": STRING, "p": {"$ref": "#/$defs/Point"}}}
    values = [("s", "1"), ("p", '{"x": 2}'), ("other", "3"), ("s", "4")]
    assert decode_arguments(values, parameters) == {"s": "4", "p": {"x": 2}, "other": 3}


def test_arguments_of_a_function_without_parameters_are_decoded_as_json() -> None:
    assert decode_arguments([("a", "1"), ("b", "x")], {}) == {"a": 1, "b": "x"}


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.booleans()), st.integers(0, 40))
def test_an_object_survives(value: dict[str, object], indent: int) -> None:
    assert decode(json.dumps(value, indent=indent), {"type": "object"}) == value


schemas = st.recursive(
    st.booleans() | st.text() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "enum", "anyOf", "$ref", "const", "properties"]), inner)
    ),
    max_leaves=10,
)


@given(st.text(alphabet="{}[]\"'TNe1,: ", max_size=20), schemas)
def test_no_value_and_no_schema_raises(value: str, schema: object) -> None:
    decode(value, schema)
