"""Constraints so plain that they need no trial: what applications send every day. Pure.

A trial in the child costs more than compiling such a constraint does, and the first answer would wait for it.
"""

from __future__ import annotations

import json

from actors.generation.grammar.constraint import Constraint

MOST_CHARACTERS = 4096
MOST_DEPTH = 8
"""Levels of a schema; each level of objects takes two."""
MOST_NUMBER = 256
"""Largest bound on lengths and counts: a bound is spelled out as that many repetitions."""
MOST_PROPERTIES = 16
"""Of all its objects together: each costs some milliseconds."""
_DEMANDING = frozenset(
    [
        *("pattern", "patternProperties", "format", "$ref", "$dynamicRef"),
        *("not", "if", "allOf", "unevaluatedProperties", "minProperties", "maxProperties"),
    ]
)
"""Keywords whose cost does not show in their size."""
_BOUNDS = frozenset(["minItems", "maxItems", "minLength", "maxLength"])


def modest(constraint: Constraint) -> bool:
    """Whether compiling and following it is certainly quick."""
    if constraint.kind == "json":
        return True
    if constraint.kind not in ("json_schema", "choice") or len(constraint.source) > MOST_CHARACTERS:
        return False
    try:
        source = json.loads(constraint.source)
    except (ValueError, RecursionError):
        return False
    if constraint.kind == "choice":
        return True
    return _plain(source, 0) and _properties(source) <= MOST_PROPERTIES


def _plain(node: object, depth: int) -> bool:
    if not isinstance(node, dict | list):
        return True
    if depth > MOST_DEPTH:
        return False
    if isinstance(node, list):
        return all(_plain(item, depth + 1) for item in node)
    return all(_fits(key, value) and _plain(value, depth + 1) for key, value in node.items())


def _fits(key: str, value: object) -> bool:
    # A property may be called like a keyword; such a schema takes the trial, which only costs time.
    if key in _DEMANDING:
        return False
    return key not in _BOUNDS or (isinstance(value, int) and value <= MOST_NUMBER)


def _properties(node: object) -> int:
    if isinstance(node, list):
        return sum(_properties(item) for item in node)
    if not isinstance(node, dict):
        return 0
    named = node.get("properties")
    return (len(named) if isinstance(named, dict) else 0) + sum(_properties(value) for value in node.values())
