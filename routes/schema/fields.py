"""Reading one field of a JSON body. Pure.

Each reader returns None for a field that is absent or null, the value in its own type when it is right, and raises
`InvalidRequest` with the field's name when it is wrong. A boolean is never a number, and an integer may be written
as 5.0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from actors.errors import InvalidRequest

Body = Mapping[str, object]
"""A JSON object."""

_DEPTH = 200
"""Levels of nesting in a JSON schema."""


def number(body: Body, name: str, low: float, high: float) -> float | None:
    """A finite number within [low, high]."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f"{name} must be of type float")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidRequest(f"{name} must be finite")
    _within(name, value, low, high)
    return float(value)


def integer(body: Body, name: str, low: int, high: int) -> int | None:
    """A whole number within [low, high]."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"{name} must be of type int")
    _within(name, value, low, high)
    return value


def boolean(body: Body, name: str) -> bool | None:
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise InvalidRequest(f"{name} must be of type bool")


def string(body: Body, name: str) -> str | None:
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise InvalidRequest(f"{name} must be a string")


def choice(body: Body, name: str, allowed: Sequence[str]) -> str | None:
    """One of a few strings."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, str) and value in allowed:
        return value
    raise InvalidRequest(f"{name} must be one of " + ", ".join(f"'{word}'" for word in allowed))


def mapping(body: Body, name: str) -> Body | None:
    """A JSON object."""
    value = body.get(name)
    if value is None or isinstance(value, dict):
        return value
    raise InvalidRequest(f"{name} must be an object")


def array(body: Body, name: str) -> Sequence[object] | None:
    """A JSON array."""
    value = body.get(name)
    if value is None or isinstance(value, list):
        return value
    raise InvalidRequest(f"{name} must be an array")


def shallow(where: str, value: object) -> None:
    """A JSON schema of a depth that whoever reads it can follow. Raises `InvalidRequest` for others."""
    level: list[object] = [value]
    for _ in range(_DEPTH):  # without recursion: how deep it goes is the question
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise InvalidRequest(f"{where} must not be nested deeper than {_DEPTH} levels")


def _within(name: str, value: float, low: float, high: float) -> None:
    if value < low:
        raise InvalidRequest(f"{name} must be at least {_plain(low)}")
    if value > high:
        raise InvalidRequest(f"{name} must be at most {_plain(high)}")


def _plain(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"
