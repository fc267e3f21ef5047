"""Which constraints are compiled without a trial."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.generation.grammar.constraint import Constraint
from actors.generation.grammar.modest import modest

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 40}, "tags": {"type": "array", "maxItems": 4}},
    "required": ["name"],
}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (PERSON, True),
        ({"anyOf": [PERSON, {"type": "null"}]}, True),
        ({"enum": ["a", "b"]}, True),
        ({"type": "string", "pattern": "(a*)*"}, False),
        ({"$ref": "#/$defs/node", "$defs": {"node": PERSON}}, False),
        ({"type": "array", "minItems": 256}, True),
        ({"type": "array", "minItems": 257}, False),
        ({"type": "array", "minItems": 1e9}, False),
        ({"type": "object", "properties": {f"p{i}": {"type": "null"} for i in range(16)}}, True),
        ({"type": "object", "properties": {f"p{i}": {"type": "null"} for i in range(17)}}, False),
        (nested(8), True),
        (nested(9), False),
        ({"enum": ["x" * 5000]}, False),
        # With sixty of them, four seconds to compile.
        ({"properties": {f"p{i}": {} for i in range(9)}, "minProperties": 9, "maxProperties": 256}, False),
    ],
)
def test_only_small_and_plain_schemas_are_modest(schema: dict[str, Any], expected: bool) -> None:
    assert modest(Constraint("json_schema", json.dumps(schema))) is expected


def test_any_json_and_short_choices_are_modest() -> None:
    assert modest(Constraint("json"))
    assert modest(Constraint("choice", json.dumps(["yes", "no"])))
    assert not modest(Constraint("choice", json.dumps(["x" * 5000])))


def test_grammars_expressions_and_broken_schemas_are_never_modest() -> None:
    assert not modest(Constraint("regex", "[a-z]"))
    assert not modest(Constraint("ebnf", 'root ::= "a"'))
    assert not modest(Constraint("structural", "{}"))
    assert not modest(Constraint("json_schema", "{"))
    assert not modest(Constraint("json_schema", "[" * 4000))
