"""The JSON object around a call: which function it names, and with what arguments. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from routes.parts import ToolCall
from routes.tools.format import Tools
from routes.tools.repair import dumps, repair

_ARGUMENTS: Final = ("arguments", "parameters")


def read_calls(value: object, tools: Tools) -> tuple[ToolCall, ...]:
    """The calls that an envelope, or an array of them, holds; none if any of them is not a call of an offered function.

    An envelope is `{"name", "arguments"}` or `{"name", "parameters"}`, the same inside `{"function": …}`, or has the
    name among the arguments. The arguments may be an object or its JSON text.
    """
    envelopes = cast("list[object]", value) if isinstance(value, list) else [value]
    calls = [_read(envelope, tools) for envelope in envelopes]
    known = [call for call in calls if call is not None]
    return tuple(known) if len(known) == len(calls) else ()


def make_call(name: str, arguments: Mapping[str, object], tools: Tools) -> ToolCall | None:
    """A call of an offered function; None if nobody offered it or the arguments cannot be written as JSON."""
    if name not in tools:
        return None
    try:
        return ToolCall(name, dumps(dict(arguments)))
    except ValueError:
        return None


def _read(value: object, tools: Tools) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    envelope = cast("dict[str, object]", value)
    function = envelope.get("function")
    if isinstance(function, dict):
        return _read(function, tools)
    name = envelope.get("name") or function
    arguments = _arguments(envelope)
    if arguments is None:
        return None
    if not name:
        return _lifted(arguments, tools)
    return make_call(name, arguments, tools) if isinstance(name, str) else None


def _arguments(envelope: Mapping[str, object]) -> dict[str, object] | None:
    key = next((key for key in _ARGUMENTS if key in envelope), None)
    if key is None:
        return None if envelope.keys() - {"name", "function", "id", "type"} else {}
    value = envelope[key]
    if isinstance(value, str):
        value = repair(value) if value.strip() else {}
    if value is None:
        return {} if envelope[key] is None else None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _lifted(arguments: Mapping[str, object], tools: Tools) -> ToolCall | None:
    """The call whose name landed among its arguments."""
    if any(key in arguments for key in _ARGUMENTS):
        return _read(dict(arguments), tools) if arguments.get("name") else None
    name = arguments.get("name")
    rest = {key: value for key, value in arguments.items() if key != "name"}
    return make_call(name, rest, tools) if isinstance(name, str) else None
