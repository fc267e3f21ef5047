"""Argument values that markup carries as raw text, decoded by the tool's JSON schema. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from routes.tools.repair import loads, repair

Schema = Mapping[str, object]

_STEPS: Final = 16
"""References and alternatives that are followed into each other: a schema may refer to itself."""
_SCALARS: Final[dict[str, object]] = {"True": True, "False": False, "None": None}
_TYPES: Final[dict[str, str]] = {
    "string": "string",
    "str": "string",
    "text": "string",
    "integer": "integer",
    "int": "integer",
    "number": "number",
    "float": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "null": "null",
    "array": "array",
    "list": "array",
    "object": "object",
    "dict": "object",
}
"""Names of types as schemas have them, those written with Python's names included."""


def decode_arguments(values: Iterable[tuple[str, str]], parameters: Schema) -> dict[str, object]:
    """Decode the raw values of a call by the schema of the function's parameters. A repeated name counts last."""
    properties = _mapping(resolve(parameters, parameters).get("properties"))
    return {name: decode(value, properties.get(name), parameters) for name, value in values}


def decode(value: str, schema: object, root: Schema | None = None) -> object:
    """Decode one raw value.

    Args:
        value: text as it stood in the markup.
        schema: what the value has to be; anything but an object stands for no schema.
        root: the document that `$ref` points into; the schema itself if None.

    Returns:
        A string for string-typed values, exactly the raw text. For others what JSON, or what Python's literals or a
        repair, make of it, and the raw text if they make nothing of it.
    """
    given = _mapping(schema)
    document = given if root is None else root
    choices = _choices(given, document)
    if choices and value in choices:
        return value
    types = _types(given, document, _STEPS)
    if types == {"string"}:
        return value
    decoded = _parsed(value)
    if isinstance(decoded, str):
        # A value in quotes where no string belongs is a value written as a JSON string.
        return _parsed(decoded) if types and "string" not in types and value != decoded else value
    if types and "string" in types and not types & _kinds(decoded):
        return value
    return decoded


def _parsed(text: str) -> object:
    """The value that the text spells; the text itself if it spells none."""
    stripped = text.strip()
    if stripped in _SCALARS:
        return _SCALARS[stripped]
    try:
        return loads(stripped)
    except ValueError:
        repaired = repair(stripped) if stripped.startswith(("{", "[")) else None
        return text if repaired is None else repaired


def _kinds(value: object) -> set[str]:
    """Names of the types that a decoded value has."""
    if value is None:
        return {"null"}
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return {"number", "integer"}
    if isinstance(value, float):
        return {"number"}
    if isinstance(value, str):
        return {"string"}
    return {"array"} if isinstance(value, list) else {"object"}


def _types(schema: Schema, root: Schema, steps: int) -> set[str]:
    """Names of the types that a schema allows; empty if it does not say."""
    schema = resolve(schema, root)
    named = schema.get("type")
    names = cast("list[object]", named) if isinstance(named, list) else [named]
    types = {_TYPES[name.lower()] for name in names if isinstance(name, str) and name.lower() in _TYPES}
    if types or steps == 0:
        return types
    if choices := _choices(schema, root):
        return set().union(*map(_kinds, choices))
    for keyword in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list):
            found = [_types(_mapping(branch), root, steps - 1) for branch in cast("list[object]", branches)]
            # A branch that allows anything leaves it open what the value is.
            return set().union(*found) if all(found) or keyword == "allOf" else set()
    implied = {"properties": "object", "items": "array"}
    return {kind for keyword, kind in implied.items() if keyword in schema}


def _choices(schema: Schema, root: Schema) -> list[object]:
    """The values that `enum` or `const` allow; empty if the schema has neither."""
    schema = resolve(schema, root)
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return cast("list[object]", values) if isinstance(values, list) else []


def resolve(schema: Schema, root: Schema) -> Schema:
    """The schema that a chain of local `$ref`s ends at; empty if it leads nowhere."""
    for _ in range(_STEPS):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = _pointed(reference, root)
    return {}


def _pointed(reference: str, root: Schema) -> Schema:
    target: object = root
    for step in reference.removeprefix("#").split("/")[1:]:
        target = _mapping(target).get(step.replace("~1", "/").replace("~0", "~"))
    return _mapping(target) if reference.startswith("#") else {}


def _mapping(value: object) -> Schema:
    return cast("Schema", value) if isinstance(value, Mapping) else {}
