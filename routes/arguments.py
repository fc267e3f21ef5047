"""The arguments of a call as a family writes them, where the grammar compiler knows no style of that name. Pure.

Elements (`<param name="city">Paris</param>`) become tags around plain JSON schemas. Notations with brackets and strings
of their own (`city=<escape>Paris<escape>`, `city="Paris"`) become an EBNF grammar made from the schema: types, required
properties in their order, `enum`, `const`, alternatives, references, and the number of items. Further keywords on
strings and numbers (`pattern`, `minLength`, `minimum`) are not held there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Final, cast

import msgspec

from actors.errors import InvalidRequest
from routes.tools.schema import resolve

Schema = Mapping[str, object]
Format = dict[str, object]
"""A format of xgrammar's structural tags."""

_SPECIAL: Final = re.compile(r"""[\s{}\[\]<>:,"']""")
MOST_WHITESPACE = 8
"""Whitespace characters in a row that the arguments of an enforced call may have."""


@dataclass(frozen=True, slots=True)
class ElementNotation:
    """An element for each argument: strings as they are, other values as JSON."""

    key: tuple[str, str]
    """What stands before and after an argument's name."""
    end: str
    """What ends its value."""
    after: str = ""
    """What follows each element."""
    forbidden: str = " \n<>"
    """Characters that a name must not have."""
    entities: bool = False
    """Whether `&lt;` stands for `<` in a value."""
    section: tuple[str, str] | None = None
    """What may stand around a value."""

    def check(self, function: str) -> None:
        """Whether a function can be called by that name.

        Raises:
            InvalidRequest: it cannot.
        """
        _check(function, not any(letter in function for letter in self.forbidden))

    def format(self, schema: Schema) -> Format:
        """Arguments that follow a schema of their object.

        Raises:
            InvalidRequest: a name cannot be written in this notation.
        """
        elements: list[object] = []
        required = _names(schema.get("required"))
        for name, sub in _properties(schema).items():
            element = self._element(name, resolve(sub, schema), schema)
            elements.append(element if name in required else {"type": "optional", "content": element})
        return {"type": "sequence", "elements": elements} if elements else {"type": "const_string", "value": ""}

    def _element(self, name: str, schema: Schema, root: Schema) -> Format:
        self.check(name)
        content: Format
        if isinstance(words := schema.get("enum", [schema["const"]] if "const" in schema else None), list):
            values = [self._raw(value) for value in cast("list[object]", words)]
            content = {"type": "or", "elements": [{"type": "const_string", "value": value} for value in values]}
        elif schema.get("type") == "string" and "pattern" not in schema and "format" not in schema:
            content = {"type": "any_text", "excludes": [self.end]}
        else:
            content = {
                "type": "json_schema",
                "json_schema": {**_definitions(schema, root), **schema},
                "max_whitespace_cnt": MOST_WHITESPACE,
            }
        if self.section is not None:
            before, after = ({"type": "const_string", "value": text} for text in self.section)
            content = {"type": "or", "elements": [content, {"type": "sequence", "elements": [before, content, after]}]}
        return {
            "type": "tag",
            "begin": self.key[0] + name + self.key[1],
            "content": content,
            "end": self.end + self.after,
        }

    def _raw(self, value: object) -> str:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return escape(text, quote=False) if self.entities else text


@dataclass(frozen=True, slots=True)
class BracketNotation:
    """Values in brackets, told apart from JSON by these literals."""

    brackets: tuple[str, str]
    """Around the arguments."""
    assignment: str
    """Between the name of an argument and its value."""
    comma: str
    """Between two of anything."""
    quote: str | None
    """On both sides of a string; None for single or double quotes and escapes, as Python has them."""
    names: str
    """EBNF of the name of an argument that no schema names."""
    colon: str | None
    """What follows a key of a nested object, which is a string then; None if it is written as an argument's name is."""
    constants: tuple[str, str, str]
    """True, false and null."""
    identifiers: bool
    """Whether names must be Python's identifiers."""

    def check(self, function: str) -> None:
        """Whether a function can be called by that name.

        Raises:
            InvalidRequest: it cannot.
        """
        dotted = all(part.isidentifier() for part in function.split("."))
        _check(function, dotted if self.identifiers else not _SPECIAL.search(function))

    def format(self, schema: Schema) -> Format:
        """Arguments that follow a schema of their object.

        Raises:
            InvalidRequest: a name cannot be written in this notation.
        """
        return {"type": "grammar", "grammar": _Writer(self, schema).text()}


def _check(name: str, fine: bool) -> None:
    if not name or not fine:
        raise InvalidRequest(f"{name!r} is not a name that this model's calls can be enforced with")


class _Writer:
    """Writes one schema's grammar. A rule for every schema that is met, so that schemas may refer to themselves."""

    def __init__(self, notation: BracketNotation, schema: Schema) -> None:
        self._notation = notation
        self._root = schema
        self._rules: dict[str, str] = {}
        self._named: dict[str, str] = {}
        self._common()
        top = resolve(schema, schema)
        self._rules["root"] = self._members(top, notation.brackets, nested=False)

    def text(self) -> str:
        return "\n".join(f"{name} ::= {body}" for name, body in self._rules.items())

    def _common(self) -> None:
        notation = self._notation
        true, false, null = (_literal(constant) for constant in notation.constants)
        self._rules["integer"] = '"-"? ("0" | [1-9] [0-9]{0,18})'
        self._rules["number"] = 'integer ("." [0-9]{1,18})? ([eE] [+-]? [0-9]{1,3})?'
        self._rules["boolean"] = f"{true} | {false}"
        self._rules["null"] = null
        self._rules |= _string_rules(notation.quote)
        comma = _literal(notation.comma)
        self._rules["array"] = f'"[" (any ({comma} any)*)? "]"'
        self._rules["object"] = f'"{{" (member ({comma} member)*)? "}}"'
        self._rules["argument"] = f"{notation.names} {_literal(notation.assignment)} any"
        self._rules["member"] = "argument" if notation.colon is None else f"string {_literal(notation.colon)} any"
        self._rules["any"] = "string | number | boolean | null | array | object"

    def _value(self, schema: object) -> str:
        """An expression for a value that follows a schema."""
        if not isinstance(schema, Mapping):
            return "any"
        node = cast("Schema", schema)
        key = msgspec.json.encode(node, order="deterministic").decode()
        name = self._named.get(key)
        if name is None:
            name = self._named[key] = f"v{len(self._named)}"
            self._rules[name] = ""  # its place, before what it needs
            self._rules[name] = self._body(resolve(node, self._root))
        return name

    def _body(self, schema: Schema) -> str:
        if "const" in schema:
            return self._constant(schema["const"])
        if isinstance(values := schema.get("enum"), list) and values:
            return " | ".join(self._constant(value) for value in cast("list[object]", values))
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), list) and branches:
                return " | ".join(self._value(branch) for branch in cast("list[object]", branches))
        named = schema.get("type", "object" if "properties" in schema else "array" if "items" in schema else None)
        kinds = cast("list[object]", named) if isinstance(named, list) else [named]
        return " | ".join(self._kind(kind, schema) for kind in kinds)

    def _kind(self, kind: object, schema: Schema) -> str:
        match kind:
            case "string" | "integer" | "number" | "boolean" | "null":
                return str(kind)
            case "array":
                return self._array(schema)
            case "object" if _properties(schema):
                return self._members(schema, ("{", "}"), nested=True)
            case "object":
                return "object"
            case _:
                return "any"

    def _array(self, schema: Schema) -> str:
        item = self._value(schema.get("items"))
        least, most = _count(schema.get("minItems"), 0), _count(schema.get("maxItems"), -1)
        if most == 0:
            return '"[]"'
        comma = _literal(self._notation.comma)
        more = f"({comma} {item}){{{max(least - 1, 0)},{most - 1 if most > 0 else ''}}}"
        return f'"[" {item} {more} "]"' if least else f'"[" ({item} {more})? "]"'

    def _members(self, schema: Schema, brackets: tuple[str, str], nested: bool) -> str:
        """Properties in their order; two rules for each, since the first one that is there has no comma before it."""
        opening, closing = _literal(brackets[0]), _literal(brackets[1])
        properties = _properties(schema)
        if not properties and not nested:
            comma = _literal(self._notation.comma)
            closed = schema.get("additionalProperties") is False
            return f"{opening} {closing}" if closed else f"{opening} (argument ({comma} argument)*)? {closing}"
        prefix = f"o{sum(name.endswith('_f0') for name in self._rules)}"
        required = _names(schema.get("required"))
        self._rules[f"{prefix}_f0"] = ""
        for index, (name, sub) in enumerate(properties.items()):
            pair = f"{self._key(name, nested)} {self._value(sub)}"
            first, later = f"{prefix}_f{index + 1}", f"{prefix}_m{index + 1}"
            comma = _literal(self._notation.comma)
            must = name in required
            self._rules[f"{prefix}_f{index}"] = f"{pair} {later}" + ("" if must else f" | {first}")
            if index:
                after = f"{comma} {pair} {later}"
                self._rules[f"{prefix}_m{index}"] = after if must else f"{after} | {later}"
        self._rules[f"{prefix}_f{len(properties)}"] = self._rules[f"{prefix}_m{len(properties)}"] = '""'
        return f"{opening} {prefix}_f0 {closing}"

    def _key(self, name: str, nested: bool) -> str:
        notation = self._notation
        if nested and notation.colon is not None:
            return f"({self._constant(name)}) {_literal(notation.colon)}"
        _check(name, name.isidentifier() if notation.identifiers else not _SPECIAL.search(name))
        return _literal(name + notation.assignment)

    def _constant(self, value: object) -> str:
        """An expression for one value; a string in either kind of quotes."""
        written = _literal(self._written(value))
        if self._notation.quote is not None or not isinstance(value, str):
            return written
        single = _escaped(value).replace('\\"', '"').replace("'", "\\'")
        return f"{written} | {_literal(single.join(chr(39) * 2))}"

    def _written(self, value: object) -> str:
        notation = self._notation
        true, false, null = notation.constants
        if isinstance(value, bool) or value is None:
            return null if value is None else true if value else false
        if isinstance(value, str):
            return f'"{_escaped(value)}"' if notation.quote is None else notation.quote + value + notation.quote
        if isinstance(value, list):
            return "[" + notation.comma.join(self._written(item) for item in cast("list[object]", value)) + "]"
        if isinstance(value, Mapping):
            pairs = [self._pair(key, item) for key, item in cast("Schema", value).items()]
            return "{" + notation.comma.join(pairs) + "}"
        return msgspec.json.encode(value).decode()

    def _pair(self, key: str, value: object) -> str:
        colon = self._notation.colon
        before = key + self._notation.assignment if colon is None else self._written(key) + colon
        return before + self._written(value)


def _string_rules(quote: str | None) -> dict[str, str]:
    if quote is None:
        # Halves of surrogate pairs are no text.
        point = '"u" ([0-9a-cA-Ce-fE-F] hex{3} | [dD] [0-7] hex{2}) | "U00" ("0" hex | "10") hex{4} | "x" hex{2}'
        escape = rf""""\\" (["'\\nrt] | {point})"""
        return {
            "hex": "[0-9a-fA-F]",
            "string": r"""("\"" letter* "\"") | ("'" mark* "'")""",
            "letter": r'[^"\\\x00-\x1f] | ' + escape,
            "mark": r"[^'\\\x00-\x1f] | " + escape,
        }
    return {"string": f"{_literal(quote)} t0 {_literal(quote)}", **_without(quote)}


def _without(literal: str) -> dict[str, str]:
    """Rules `t0` ... for any text that does not contain a literal: a rule for each number of its letters just read.

    The literal's first letter must not occur in it again.
    """
    first = literal[0]
    rules = {"t0": f"[^{_in_class(first)}]* ({_literal(first)} t1)?"}
    for read in range(1, len(literal)):
        letter = literal[read]
        ways = ['""', f"{_literal(first)} t1", f"[^{_in_class(first)}{_in_class(letter)}] t0"]
        if read + 1 < len(literal):
            ways.append(f"{_literal(letter)} t{read + 1}")
        rules[f"t{read}"] = " | ".join(ways)
    return rules


def _literal(text: str) -> str:
    """Text as EBNF; `""` for none."""
    return '"' + "".join(_ebnf(letter) for letter in text) + '"'


def _ebnf(letter: str) -> str:
    # Not `\\x22`: xgrammar reads as many hexadecimal digits after an `x` as there are.
    return f"\\u{ord(letter):04x}" if letter in '"\\' or ord(letter) < 32 or ord(letter) == 127 else letter


def _in_class(letter: str) -> str:
    return "\\" + letter if letter in "]^-\\" else letter


def _escaped(text: str) -> str:
    """Text between double quotes, as JSON writes it."""
    return msgspec.json.encode(text).decode()[1:-1]


def _properties(schema: Schema) -> Mapping[str, Schema]:
    found = schema.get("properties")
    return cast("Mapping[str, Schema]", found) if isinstance(found, Mapping) else {}


def _names(value: object) -> frozenset[str]:
    return (
        frozenset(name for name in cast("list[object]", value) if isinstance(name, str))
        if isinstance(value, list)
        else frozenset()
    )


ELEMENTS: Final[Mapping[str, ElementNotation]] = {
    "minicpm": ElementNotation(
        ('<param name="', '">'), "</param>", forbidden="<>\"'&\n", entities=True, section=("<![CDATA[", "]]>")
    ),
    "muse_spark": ElementNotation(('<atem:parameter name="', '">'), "</atem:parameter>", "\n", forbidden="<>\"'\n"),
    "longcat": ElementNotation(
        ("<longcat_arg_key>", "</longcat_arg_key>\n<longcat_arg_value>"), "</longcat_arg_value>", "\n"
    ),
}
_IDENTIFIER: Final = "[a-zA-Z_] [a-zA-Z0-9_]{0,63}"
BRACKETS: Final[Mapping[str, BracketNotation]] = {
    "function_gemma": BracketNotation(
        ("{", "}"), ":", ",", "<escape>", _IDENTIFIER, None, ("true", "false", "null"), identifiers=False
    ),
    "pythonic": BracketNotation(
        ("(", ")"), "=", ", ", None, _IDENTIFIER, ": ", ("True", "False", "None"), identifiers=True
    ),
}
"""By family."""


def _count(value: object, missing: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else missing


def _definitions(schema: Schema, root: Schema) -> Format:
    # Only where they are needed: xgrammar takes an object with definitions, and nothing else, for an empty one.
    if b'"$ref"' not in msgspec.json.encode(schema):
        return {}
    return {key: root[key] for key in ("$defs", "definitions") if key in root}
