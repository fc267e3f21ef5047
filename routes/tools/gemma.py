"""Gemma's markups: `call:name{key:value}` with bare keys and strings between delimiters of their own. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from routes.parts import ToolCall
from routes.tools.envelope import make_call
from routes.tools.format import Incomplete, Scan, ToolFormat, Tools
from routes.tools.reading import (
    Broken,
    Cut,
    is_beginning,
    pass_closer,
    pass_literal,
    read_word,
    skip_space,
    taken_or_plain,
)
from routes.tools.repair import loads
from routes.tools.schema import decode

_CALL: Final = "call:"
_NAME: Final = re.compile(r"[^\s{}<>:,]+")
_KEY: Final = re.compile(r"[^\s:,{}\[\]][^:,{}\[\]]*")
_BARE: Final = re.compile(r"[^,{}\[\]]*")
_QUOTED: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_DEEPEST: Final = 100
"""Levels of nesting that are followed: no argument needs more, and the interpreter's stack is finite."""


@dataclass(frozen=True, slots=True)
class Gemma:
    """One generation of the markup; they differ in their literals."""

    name: str
    """As settings name it."""
    opener: str
    """What begins a call."""
    closer: str
    """What ends a call."""
    delimiter: str
    """What stands on both sides of a string."""

    @property
    def openers(self) -> tuple[str, ...]:
        """The opener."""
        return (self.opener,)

    @property
    def bare(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    @property
    def closers(self) -> tuple[str, ...]:
        """The closer."""
        return (self.closer,)

    @property
    def markers(self) -> tuple[str, ...]:
        """Every literal of the markup, for special tokens that would not be shown otherwise."""
        return self.opener, self.closer, self.delimiter

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        """Look at text that begins with the opener. One pair of literals may hold several calls."""
        calls: list[ToolCall] = []
        at = taken = plain = len(self.opener)
        while not calls or text.startswith(_CALL, at):
            try:
                name, start = read_word(text, pass_literal(text, at, _CALL), "{", _NAME)
                arguments, end = _Reader(text, start, self, tools.get(name, {}), final).arguments()
                plain = self._end(text, end, final)
            except (Cut, Broken) as error:
                waits = isinstance(error, Cut) and not final
                return Incomplete() if waits else taken_or_plain(calls, taken, plain)
            call = make_call(name, arguments, tools)
            if call is None:
                break
            calls.append(call)
            at = taken = plain
        return taken_or_plain(calls, taken, plain)

    def _end(self, text: str, at: int, final: bool) -> int:
        """Where the text goes on after a call: with the next one, or behind the closer. Raises `Cut`."""
        start = skip_space(text, at)
        if text.startswith(_CALL, start):
            return start
        if not final and start < len(text) and _CALL.startswith(text[start:]):
            raise Cut
        return pass_closer(text, at, self.closer, final)


class _Reader:
    """Reads values from a place on. Its methods raise `Cut` and `Broken`.

    Brackets that are missing before the closer, or at the end of a final text, count as there. A string without an end
    counts as broken, for half a value is not what the model meant.
    """

    def __init__(self, text: str, at: int, markup: Gemma, schema: Mapping[str, object], final: bool) -> None:
        self._text = text
        self._at = at
        self._markup = markup
        self._root = schema
        self._final = final

    def arguments(self) -> tuple[dict[str, object], int]:
        """The members up to `}`, of which the opening bracket has been read, and where the text goes on."""
        members = self._object(self._root, 0)
        if not members and not self._text.endswith("}", 0, self._at):
            raise Cut  # before the first argument: nothing says that there was to be none
        return members, self._at

    def _object(self, schema: object, depth: int) -> dict[str, object]:
        properties = _mapping(_mapping(schema).get("properties"))
        members: dict[str, object] = {}
        while not self._closes("}"):
            key = self._key()
            self._at = pass_literal(self._text, self._at, ":")
            members[key] = self._value(properties.get(key), depth + 1)
            self._comma("}")
        return members

    def _array(self, schema: object, depth: int) -> list[object]:
        items = _mapping(schema).get("items")
        values: list[object] = []
        while not self._closes("]"):
            values.append(self._value(items, depth + 1))
            self._comma("]")
        return values

    def _value(self, schema: object, depth: int) -> object:
        self._at = skip_space(self._text, self._at)
        if depth > _DEEPEST:
            raise Broken
        if self._passes("{"):
            return self._object(schema, depth)
        if self._passes("["):
            return self._array(schema, depth)
        string = self._string()
        return self._word(schema) if string is None else string

    def _key(self) -> str:
        self._at = skip_space(self._text, self._at)
        string = self._string()
        if string is not None:
            return string
        found = _KEY.match(self._text, self._at)
        if found is None:
            raise Broken
        self._at = found.end()
        return found.group().rstrip()

    def _string(self) -> str | None:
        """A string between delimiters, or in double quotes as JSON has them; None if there is neither."""
        if self._passes(self._markup.delimiter):
            end = self._text.find(self._markup.delimiter, self._at)
            if end < 0:
                raise Cut
            string, self._at = self._text[self._at : end], end + len(self._markup.delimiter)
            return string
        if not self._text.startswith('"', self._at):
            return None
        found = _QUOTED.match(self._text, self._at)
        if found is None:
            raise Cut
        self._at = found.end()
        try:
            return cast("str", loads(found.group()))
        except ValueError:
            raise Broken from None

    def _word(self, schema: object) -> object:
        """A number, a literal, or a string whose delimiters were forgotten: what the schema says."""
        found = _BARE.match(self._text, self._at)
        word = "" if found is None else found.group().partition(self._markup.closer)[0]
        self._at += len(word)
        if self._at == len(self._text) and not (self._final and _is_literal(word)):
            raise Cut
        if not word.strip():
            raise Broken
        return decode(word.rstrip(), schema, self._root)

    def _closes(self, bracket: str) -> bool:
        self._at = skip_space(self._text, self._at)
        if self._at < len(self._text):
            return self._passes(bracket) or self._text.startswith(self._markup.closer, self._at)
        if self._final:
            return True
        raise Cut

    def _comma(self, bracket: str) -> None:
        self._at = skip_space(self._text, self._at)
        if self._at == len(self._text) or self._passes(","):
            return
        if not any(self._text.startswith(literal, self._at) for literal in (bracket, self._markup.closer)):
            raise Cut if is_beginning(self._text, self._at, self._markup.closer) else Broken

    def _passes(self, literal: str) -> bool:
        """Whether `literal` stands here; if so, it has been read."""
        if not self._text.startswith(literal, self._at):
            return False
        self._at += len(literal)
        return True


def _is_literal(word: str) -> bool:
    """Whether the word is a number or a literal, which may be complete where the text was cut off."""
    try:
        loads(word)
    except ValueError:
        return False
    return True


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


GEMMA4: Final = Gemma("gemma4", "<|tool_call>", "<tool_call|>", '<|"|>')
FUNCTION_GEMMA: Final = Gemma("function_gemma", "<start_function_call>", "<end_function_call>", "<escape>")
FORMATS: tuple[ToolFormat, ...] = (GEMMA4, FUNCTION_GEMMA)


def detects(template: str, tokens: frozenset[str]) -> ToolFormat | None:
    """The family of a model with this chat template and these special tokens, if it is one of Gemma's."""
    for family in (GEMMA4, FUNCTION_GEMMA):
        if family.opener in template or family.opener in tokens:
            return family
    return None
