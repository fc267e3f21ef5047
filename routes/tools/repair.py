"""JSON as models write it: where a value ends, and what was meant when it is not quite JSON. Pure."""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

_STRUCTURE: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\]]', re.DOTALL)
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"' + r"|'[^'\\]*+(?:\\.[^'\\]*+)*+'", re.DOTALL)
_ESCAPE: Final = re.compile(r'\\(u[0-9a-fA-F]{4}|.)|"', re.DOTALL)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_WORD: Final = re.compile(r"[A-Za-z_$][\w$-]*")
_SPACE: Final = re.compile(r"\s*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final[dict[str, object]] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_DEEPEST: Final = 100
"""Levels of nesting that the repair follows: no argument needs more, and the interpreter's stack is finite."""


def loads(text: str) -> object:
    """Decode JSON; control characters inside strings are allowed.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or has a number that JSON cannot carry on (`NaN`, `1e999`).
    """
    try:
        return json.loads(text, strict=False, parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def dumps(value: object) -> str:
    """Compact JSON text that can always be encoded as UTF-8.

    Raises:
        ValueError: nested too deeply, or a number that is not finite.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        # Half a surrogate pair, which a model can write as an escape, has to stay an escape.
        return text if not _SURROGATE.search(text) else json.dumps(value, separators=(",", ":"), allow_nan=False)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_end(text: str, start: int) -> int | None:
    """Where the object or array that begins at `start` ends; None while it does not. Strings may hold brackets."""
    depth = 0
    for match in _STRUCTURE.finditer(text, start):
        token = match[0]
        if token in "{[":
            depth += 1
        elif token in "}]":
            depth -= 1
            if depth <= 0:
                return match.end()
        elif token == '"':
            return None
    return None


def find_outside(text: str, literal: str, start: int) -> int | None:
    """Where `literal` first stands outside of double-quoted strings; None if it does not."""
    position = start
    while (found := text.find(literal, position)) >= 0:
        # Strings are skipped as a whole, and one that is not closed hides all that follows.
        while (quote := text.find('"', position, found)) >= 0:
            match = _STRING.match(text, quote)
            if match is None:
                return None
            position = match.end()
            if position > found:
                break
        else:
            return found
    return None


def repair(text: str) -> object | None:
    """The object or array that the text means; None if it cannot be told.

    Understood besides JSON: a code fence around it, prose before and after it, single quotes, raw line breaks in
    strings, stray backslashes, unquoted keys, trailing commas, missing closing brackets and Python's literals. A string
    that has no end is not repaired: half an argument is not what the model meant.
    """
    body = _unfenced(text.strip())
    try:
        value = loads(body)
        return value if isinstance(value, dict | list) else None
    except ValueError:
        start = 0 if body.startswith("[") else body.find("{")
    if start < 0:
        return None
    try:
        return _Reader(body, start).value(0)
    except ValueError:
        return None


def _unfenced(text: str) -> str:
    if not text.startswith("```"):
        return text
    return text.partition("\n")[2].removesuffix("```").strip()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large")
    return number


class _Reader:
    """Reads a value as far as it can be understood. Its methods raise ValueError where it cannot."""

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self._at = position

    def value(self, depth: int) -> object:
        """The value that begins here."""
        char = self._peek()
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._array(depth)
        if char and char in "\"'":
            return self._string()
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            return loads(number[0])
        word = self._word()
        if word not in _WORDS:
            raise ValueError(f"{word!r} is no value")
        return _WORDS[word]

    def _object(self, depth: int) -> dict[str, object]:
        self._at += 1
        entries: dict[str, object] = {}
        while not self._closes("}"):
            key = self._string() if self._peek() in "\"'" else self._word()
            if self._peek() != ":":
                raise ValueError("a key without a value")
            self._at += 1
            entries[key] = self.value(depth + 1)
            self._comma()
        return entries

    def _array(self, depth: int) -> list[object]:
        self._at += 1
        items: list[object] = []
        while not self._closes("]"):
            items.append(self.value(depth + 1))
            self._comma()
        return items

    def _closes(self, bracket: str) -> bool:
        """Whether the container ends here: with its bracket, with that of an outer one, or with the text."""
        char = self._peek()
        if char == bracket:
            self._at += 1
        return char == "" or char in "}]"

    def _comma(self) -> None:
        char = self._peek()
        if char == ",":
            self._at += 1
        elif char and char not in "}]":
            raise ValueError("two values without a comma")

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise ValueError("a string without an end")
        self._at = match.end()
        decoded = loads('"' + _ESCAPE.sub(_escape, match[0][1:-1]) + '"')
        assert isinstance(decoded, str)
        return decoded

    def _word(self) -> str:
        match = _WORD.match(self._text, self._at)
        if match is None:
            raise ValueError("neither a value nor a key")
        self._at = match.end()
        return match[0]

    def _peek(self) -> str:
        """The next character that is no whitespace; empty at the end."""
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]


def _escape(match: re.Match[str]) -> str:
    """An escape (or a bare double quote) as JSON has it."""
    escaped = match[1]
    if escaped is None:
        return '\\"'
    if escaped in '"\\/bfnrt' or len(escaped) > 1:
        return match[0]
    return "'" if escaped == "'" else "\\\\" + escaped
