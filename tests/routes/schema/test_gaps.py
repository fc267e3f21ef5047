"""Keywords of a schema that are not enforced."""

from __future__ import annotations

import json
from typing import Any

import pytest

from routes.schema.gaps import gaps


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]}, ()),
        ({"not": {"type": "string"}}, ("not",)),
        ({"type": "array", "uniqueItems": True, "items": {"contains": {"const": 1}}}, ("uniqueItems", "contains")),
        ({"type": "array", "uniqueItems": False}, ()),
        ({"allOf": [{"type": "integer"}]}, ()),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, ("allOf",)),
        ({"type": "string", "pattern": "a*", "maxLength": 2}, ("lengths beside pattern",)),
        ({"$ref": "#/$defs/a", "minimum": 1, "$defs": {"a": {"not": {}}}}, ("keywords beside $ref", "not")),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, ()),
        # Names and data are no keywords.
        ({"properties": {"not": {"type": "string"}, "if": {}}, "enum": [{"contains": 1}]}, ()),
    ],
)
def test_keywords_that_are_not_enforced_are_found(schema: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert gaps(json.dumps(schema)) == expected


def test_what_is_no_schema_has_no_gaps() -> None:
    assert gaps("{") == ()
    assert gaps("[" * 100_000) == ()
