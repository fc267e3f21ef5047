"""The fields that ask for a certain form of the answer. Pure.

Several may be set; the first of this list counts, the others are only checked:
guided_grammar, response_format json_schema, json_object, structured_outputs, guided_regex, guided_choice.
"""

from __future__ import annotations

import json

from actors.errors import InvalidRequest
from actors.generation.grammar.constraint import Constraint
from routes.schema import fields
from routes.schema.fields import Body

MOST_BYTES = 256 << 10
"""UTF-8 bytes of a schema, grammar, expression or list of choices; more is refused before it is compiled."""
MOST_TOLD = 8192
"""Characters of a source that a model is told when it cannot be enforced."""
_JSON_ONLY = "Answer with valid JSON only, without any text before or after it."
_TYPES = ("text", "json_object", "json_schema")
_INNER = ("json", "regex", "choice", "grammar")


def read_constraint(body: Body) -> Constraint | None:
    """The constraint of a completion request; None when none is asked for.

    Raises:
        InvalidRequest: a field is ill-typed, empty where that means nothing, or too large.
    """
    grammar = fields.string(body, "guided_grammar")
    formatted = _response_format(body)
    structured = _structured_outputs(body)
    regex = fields.string(body, "guided_regex")
    choices = _choices("guided_choice", body.get("guided_choice"))
    if grammar is not None:
        return Constraint("ebnf", _bounded("guided_grammar", grammar))
    if formatted is not None:
        return formatted
    if structured is not None:
        return structured
    if regex is not None:
        return Constraint("regex", _bounded("guided_regex", regex))
    return choices


def instruction(constraint: Constraint) -> str | None:
    """What to tell the model when the constraint cannot be enforced; None for one that has no words.

    A source too long to be told is left out: it would only push the conversation out of the context.
    """
    if len(constraint.source) > MOST_TOLD:
        return _JSON_ONLY if constraint.kind == "json_schema" else None
    match constraint.kind:
        case "json":
            return _JSON_ONLY
        case "json_schema":
            return (
                "Answer with JSON only, without any text before or after it. "
                f"It must conform to this JSON schema:\n{constraint.source}"
            )
        case "ebnf":
            return f"Answer only with text that matches this grammar:\n{constraint.source}"
        case "regex":
            return f"Answer only with text that matches this regular expression:\n{constraint.source}"
        case "choice":
            return f"Answer with exactly one of these texts and nothing else:\n{constraint.source}"
        case "structural" | "free":
            return None


def _response_format(body: Body) -> Constraint | None:
    wanted = fields.mapping(body, "response_format")
    if wanted is None:
        return None
    return read_format("response_format", wanted, "response_format.json_schema", wanted.get("json_schema"))


def read_format(outer: str, wanted: Body, where: str, described: object) -> Constraint | None:
    """The constraint of a format object.

    Args:
        outer: what the request calls the format.
        wanted: the format, with its `type`.
        where: what the request calls the part that describes a schema.
        described: that part, of which a schema is wanted if the type says so.

    Raises:
        InvalidRequest: the type is not known, or the schema cannot be one.
    """
    kind = wanted.get("type")
    if kind not in _TYPES:
        raise InvalidRequest(f"{outer}.type must be one of " + ", ".join(f"'{word}'" for word in _TYPES))
    if kind == "text":
        return None
    if kind == "json_object":
        return Constraint("json")
    if not isinstance(described, dict):
        raise InvalidRequest(f"{where} must be an object")
    named = {f"{where}.{key}": value for key, value in described.items()}
    any_whitespace = fields.boolean(named, f"{where}.any_whitespace")
    strict = fields.boolean(named, f"{where}.strict")
    fields.string(named, f"{where}.name")
    source = _schema(f"{where}.schema", described.get("schema"))
    return Constraint("json_schema", source, any_whitespace is not False, strict is not False)


def _structured_outputs(body: Body) -> Constraint | None:
    """A bare JSON schema, or one of vLLM's keys alone: `json` and such are no keywords of JSON schema."""
    wanted = fields.mapping(body, "structured_outputs")
    if wanted is None:
        return None
    given = [key for key, value in wanted.items() if value is not None]
    if len(given) != 1 or given[0] not in _INNER:
        return Constraint("json_schema", _schema("structured_outputs", wanted))
    key = given[0]
    where, value = f"structured_outputs.{key}", wanted[key]
    if key == "json":
        return Constraint("json_schema", _schema(where, _parsed(where, value)))
    if key == "choice":
        return _choices(where, value)
    if not isinstance(value, str):
        raise InvalidRequest(f"{where} must be a string")
    return Constraint("regex" if key == "regex" else "ebnf", _bounded(where, value))


def _parsed(where: str, value: object) -> object:
    """A schema may be given as its text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(_bounded(where, value))
    except (ValueError, RecursionError):
        raise InvalidRequest(f"{where} must be a JSON schema") from None


def _schema(where: str, value: object) -> str:
    if not isinstance(value, dict):
        raise InvalidRequest(f"{where} must be an object")
    fields.shallow(where, value)
    return _bounded(where, json.dumps(value, ensure_ascii=False))


def _choices(where: str, value: object) -> Constraint | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise InvalidRequest(f"{where} must be an array")
    if not all(isinstance(word, str) for word in value):
        raise InvalidRequest(f"{where} must be an array of strings")
    if not value:
        return None
    return Constraint("choice", _bounded(where, json.dumps(value, ensure_ascii=False)))


def _bounded(where: str, source: str) -> str:
    if not source.strip():
        raise InvalidRequest(f"{where} must not be empty")
    try:
        size = len(source.encode())
    except UnicodeEncodeError:
        raise InvalidRequest(f"{where} must be valid Unicode") from None
    if size > MOST_BYTES:
        raise InvalidRequest(f"{where} must be at most {MOST_BYTES} bytes")
    return source
