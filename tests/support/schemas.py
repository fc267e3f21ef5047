"""Forty JSON schemas of the kinds that clients send, each with answers short enough for a small model."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

WORD: Schema = {"type": "string", "maxLength": 12}
DIGIT: Schema = {"type": "integer", "minimum": 0, "maximum": 9}
FLAG: Schema = {"type": "boolean"}
COLOUR: Schema = {"enum": ["red", "green", "blue"]}


def closed(**properties: Schema) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def items(of: Schema, least: int, most: int) -> Schema:
    return {"type": "array", "items": of, "minItems": least, "maxItems": most}


def text(**rules: Any) -> Schema:
    return {"type": "string", **rules}


def formatted(name: str) -> Schema:
    return closed(value=text(format=name))


POINT = closed(x=DIGIT, y=DIGIT)

FLAT: list[Schema] = [
    closed(name=WORD),
    closed(name=WORD, age=DIGIT),
    closed(ok=FLAG, count=DIGIT),
    closed(nothing={"type": "null"}, ok=FLAG),
    closed(level={"type": "integer", "minimum": -3, "maximum": 3}),
    closed(year={"type": "integer", "minimum": 1900, "maximum": 2099}),
    {"type": "object", "properties": {"a": DIGIT, "b": WORD}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "properties": {"a": DIGIT, "b": FLAG}, "additionalProperties": False},
]
CHOICES: list[Schema] = [
    closed(colour=COLOUR),
    closed(size={"enum": [1, 2, 3, None, "huge"]}),
    closed(kind={"const": "circle"}, radius=DIGIT),
    closed(value={"anyOf": [DIGIT, WORD]}),
    closed(value={"anyOf": [{"type": "null"}, POINT]}),
    {"anyOf": [closed(cat=WORD), closed(dog=DIGIT)]},
    closed(value={"oneOf": [{"const": "yes"}, DIGIT]}),
    closed(value={"type": ["integer", "null"], "minimum": 0, "maximum": 9}),
    {"enum": ["spring", "summer", "autumn", "winter"]},
]
ARRAYS: list[Schema] = [
    items(DIGIT, 1, 4),
    items(COLOUR, 2, 3),
    items(FLAG, 3, 3),
    closed(tags=items(WORD, 1, 2)),
    closed(points=items(POINT, 1, 2)),
    closed(grid=items(items(DIGIT, 2, 2), 2, 2)),
    closed(pair={"type": "array", "prefixItems": [DIGIT, COLOUR], "items": False, "minItems": 2}),
    items({"anyOf": [DIGIT, FLAG]}, 2, 4),
]
NESTED: list[Schema] = [
    closed(point=POINT),
    closed(a=closed(b=closed(c=DIGIT))),
    closed(name=WORD, home=closed(city=WORD, floor=DIGIT)),
    {"$defs": {"point": POINT}, **closed(start={"$ref": "#/$defs/point"}, end={"$ref": "#/$defs/point"})},
    {"definitions": {"colour": COLOUR}, **closed(colours=items({"$ref": "#/definitions/colour"}, 1, 3))},
    {
        "$defs": {"list": {**closed(head=DIGIT, tail={"$ref": "#/$defs/list"}), "required": ["head"]}},
        "$ref": "#/$defs/list",
    },
]
STRINGS: list[Schema] = [
    closed(code=text(pattern="^[A-Z]{3}-[0-9]{2}$")),
    closed(plate=text(pattern="^(AB|CD)[0-9]{2,4}$")),
    closed(name=text(minLength=3, maxLength=6)),
    formatted("date"),
    formatted("time"),
    formatted("date-time"),
    formatted("ipv4"),
    formatted("uuid"),
    closed(colour=text(pattern="^#[0-9a-f]{6}$")),
]
SCHEMAS: list[Schema] = [*FLAT, *CHOICES, *ARRAYS, *NESTED, *STRINGS]
