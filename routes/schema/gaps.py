"""What of a JSON schema the grammar compiler does not know, so that an answer may go against it. Pure.

Such a schema is enforced but for these keywords, and the response says so in its `Warning` header.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

_IGNORED = (
    "not",
    "if",
    "contains",
    "uniqueItems",
    "dependentRequired",
    "dependentSchemas",
)
"""Keywords that are read over, wherever they stand. `oneOf` is taken as `anyOf`, which every client expects."""
_LENGTHS = ("minLength", "maxLength")
_NAMES = ("properties", "patternProperties", "$defs", "definitions")
"""Keywords whose keys are names of the schema's author, not keywords."""
_DATA = ("enum", "const", "default", "examples", "required")
"""Keywords that hold data."""


def gaps(source: str) -> tuple[str, ...]:
    """Keywords of a schema, as JSON text, that are not enforced; each once."""
    try:
        return tuple(dict.fromkeys(_found(json.loads(source))))
    except (ValueError, RecursionError):
        return ()


def _found(node: object) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from _found(item)
    if not isinstance(node, Mapping):
        return
    yield from _here(node)
    for key, value in node.items():
        if key in _NAMES and isinstance(value, Mapping):
            for child in value.values():
                yield from _found(child)
        elif key not in _DATA:
            yield from _found(value)


def _here(node: Mapping[str, object]) -> Iterator[str]:
    for key in _IGNORED:
        if node.get(key) not in (None, False):
            yield key
    parts = node.get("allOf")
    if isinstance(parts, list) and len(parts) > 1:
        yield "allOf"
    if "$ref" in node and any(key not in ("$ref", "$defs", "definitions", "description", "title") for key in node):
        yield "keywords beside $ref"
    if "pattern" in node and any(key in node for key in _LENGTHS):
        yield "lengths beside pattern"
