from __future__ import annotations

import json
from typing import Any

import pytest

from actors.errors import InvalidRequest
from actors.generation.grammar.constraint import Constraint
from routes.schema.constraint import MOST_BYTES, instruction, read_constraint

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TEXT = json.dumps(SCHEMA)
ALL: dict[str, Any] = {
    "guided_grammar": 'root ::= "a"',
    "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
    "structured_outputs": SCHEMA,
    "guided_regex": "a+",
    "guided_choice": ["yes", "no"],
}


def test_the_first_of_several_fields_counts() -> None:
    body = dict(ALL)
    kinds = []
    for name in ALL:
        constraint = read_constraint(body)
        assert constraint is not None
        kinds.append(constraint.kind)
        del body[name]
    assert kinds == ["ebnf", "json_schema", "json_schema", "regex", "choice"]
    assert read_constraint({**ALL, "guided_grammar": None, "response_format": {"type": "json_object"}}) == Constraint(
        "json"
    )
    assert read_constraint({"response_format": {"type": "text"}, "guided_regex": "a+"}) == Constraint("regex", "a+")


@pytest.mark.parametrize(
    "body", [{}, {"response_format": {"type": "text"}}, {"response_format": None}, {"guided_choice": []}]
)
def test_what_asks_for_nothing_is_no_constraint(body: dict[str, Any]) -> None:
    assert read_constraint(body) is None


def test_a_schema_keeps_its_order_and_switches() -> None:
    described = {"name": "x", "schema": SCHEMA, "strict": False, "any_whitespace": False}
    body = {"response_format": {"type": "json_schema", "json_schema": described}}
    assert read_constraint(body) == Constraint("json_schema", TEXT, any_whitespace=False, strict=False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (SCHEMA, Constraint("json_schema", TEXT)),
        ({"json": SCHEMA}, Constraint("json_schema", TEXT)),
        ({"json": TEXT}, Constraint("json_schema", TEXT)),
        ({"regex": "a+", "json": None}, Constraint("regex", "a+")),
        ({"choice": ["a"]}, Constraint("choice", '["a"]')),
        ({"grammar": 'root ::= "a"'}, Constraint("ebnf", 'root ::= "a"')),
    ],
)
def test_structured_outputs_is_a_schema_or_names_its_kind(given: dict[str, Any], expected: Constraint) -> None:
    assert read_constraint({"structured_outputs": given}) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"response_format": "json"}, "response_format must be an object"),
        (
            {"response_format": {"type": "xml"}},
            "response_format.type must be one of 'text', 'json_object', 'json_schema'",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": []}},
            "response_format.json_schema must be an object",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {}}},
            "response_format.json_schema.schema must be an object",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "strict": "yes"}}},
            "response_format.json_schema.strict must be of type bool",
        ),
        ({"guided_grammar": 1}, "guided_grammar must be a string"),
        ({"guided_grammar": " "}, "guided_grammar must not be empty"),
        ({"guided_grammar": "x", "guided_regex": 1}, "guided_regex must be a string"),
        ({"guided_regex": "\ud800"}, "guided_regex must be valid Unicode"),
        ({"guided_regex": "a" * (MOST_BYTES + 1)}, "guided_regex must be at most 262144 bytes"),
        ({"guided_choice": "a"}, "guided_choice must be an array"),
        ({"guided_choice": ["a", 1]}, "guided_choice must be an array of strings"),
        ({"structured_outputs": []}, "structured_outputs must be an object"),
        ({"structured_outputs": {"regex": 1}}, "structured_outputs.regex must be a string"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json must be a JSON schema"),
    ],
)
def test_an_ill_typed_field_is_refused_by_name(body: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_constraint(body)
    assert caught.value.message == message


def test_a_schema_nested_without_end_is_refused_without_recursion() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"items": schema}
    with pytest.raises(InvalidRequest, match="nested deeper than 200 levels"):
        read_constraint({"structured_outputs": schema})
    while schema:
        schema = schema["items"]


def test_an_instruction_carries_the_source() -> None:
    for constraint in (
        Constraint("json_schema", TEXT),
        Constraint("ebnf", 'root ::= "a"'),
        Constraint("regex", "a+"),
        Constraint("choice", '["a"]'),
    ):
        words = instruction(constraint)
        assert words is not None and words.endswith("\n" + constraint.source)
    assert "JSON" in (instruction(Constraint("json")) or "")
    assert instruction(Constraint("structural", "{}")) is None


def test_a_source_too_long_to_be_told_is_left_out_of_the_instruction() -> None:
    schema = json.dumps({"enum": ["x" * 9000]})
    assert instruction(Constraint("json_schema", schema)) == instruction(Constraint("json"))
    assert instruction(Constraint("choice", json.dumps(["x" * 9000]))) is None
    assert "x" * 8000 in str(instruction(Constraint("regex", "x" * 8000)))
