"""DeepSeek's markups: fenced JSON (V3, R1), plain JSON (V3.1) and DSML (V3.2 and later). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from routes.tools.format import ToolFormat, Tools
from routes.tools.reading import (
    Broken,
    Cut,
    is_beginning,
    pass_closer,
    pass_literal,
    read_object,
    read_word,
    skip_space,
)
from routes.tools.repair import loads
from routes.tools.schema import decode_arguments
from routes.tools.section import Section

_FENCE: Final = "```"
_FENCED_NAME: Final = re.compile(r"[^\s<`]+")
_ATTRIBUTE: Final = re.compile(r'\s+(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Deepseek(Section):
    """V3, R1 and V3.1: sections of calls, each with its arguments as JSON, fenced or not."""

    name: str = "deepseek"
    """As settings name it."""
    section: tuple[str, str] = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
    """What stands around all calls."""
    call: tuple[str, str] = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
    """What stands around each call."""
    separator: str = "<｜tool▁sep｜>"
    """What stands after the type (V3, R1) or the name (V3.1)."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Every literal of the markup, for special tokens that would not be shown otherwise."""
        return (*self.section, *self.call, self.separator)

    def _read(self, text: str, at: int, tools: Tools, final: bool) -> tuple[str, dict[str, object], int]:
        name, at = read_word(text, at, self.separator)
        at = skip_space(text, at)
        if at == len(text):
            raise Cut
        fenced = not text.startswith("{", at)
        if fenced:
            name, at = read_word(text, at, _FENCE, _FENCED_NAME)
            if is_beginning(text, at, "json"):
                raise Cut
            at += len("json") if text.startswith("json", at) else 0
        stops = (_FENCE, self.call[1]) if fenced else (self.call[1], self.section[1])
        arguments, at = read_object(text, at, stops, final)
        if fenced:
            at = pass_closer(text, at, _FENCE, final)
        return name, arguments, pass_closer(text, at, self.call[1], final)


@dataclass(frozen=True, slots=True)
class Dsml(Section):
    """V3.2 and later: elements; a parameter says of itself whether it is a string or JSON."""

    name: str = "deepseek_dsml"
    """As settings name it."""
    section: tuple[str, str] = ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>")
    """What stands around all calls."""
    call: tuple[str, str] = ("<｜DSML｜invoke", "</｜DSML｜invoke>")
    """What stands around each call."""
    parameter: tuple[str, str] = ("<｜DSML｜parameter", "</｜DSML｜parameter>")
    """What stands around each argument."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Every literal of the markup, and the special token that is part of them all."""
        return (*self.section, *self.call, *self.parameter, "｜DSML｜")

    def _read(self, text: str, at: int, tools: Tools, final: bool) -> tuple[str, dict[str, object], int]:
        attributes, at = _read_attributes(text, at)
        schema = tools.get(attributes["name"], {})
        arguments: dict[str, object] = {}
        while text.startswith(self.parameter[0], at := skip_space(text, at)):
            about, at = _read_attributes(text, at + len(self.parameter[0]))
            value, at = self._read_value(text, at, final)
            arguments |= _argument(about["name"], value, about.get("string"), schema)
        if is_beginning(text, at, self.parameter[0]) and not (final and arguments):
            raise Cut
        return attributes["name"], arguments, pass_closer(text, at, self.call[1], final)

    def _read_value(self, text: str, at: int, final: bool) -> tuple[str, int]:
        """What stands up to a closer after which the call goes on or ends: a value may mention closers.

        Raises:
            Cut: there is none (yet).
        """
        following = f"(?={re.escape(self.parameter[0])}\\s|{re.escape(self.call[1])})"
        found = re.compile(re.escape(self.parameter[1]) + r"\s*" + following).search(text, at)
        if found is not None:
            return text[at : found.start()], found.end()
        end = text.rfind(self.parameter[1], at)
        if not final or end < 0:
            raise Cut
        return text[at:end], end + len(self.parameter[1])


def _read_attributes(text: str, at: int) -> tuple[dict[str, str], int]:
    """The attributes of an element, `name` among them, and where it has been opened. Raises `Cut` and `Broken`."""
    attributes: dict[str, str] = {}
    while found := _ATTRIBUTE.match(text, at):
        attributes[found[1]] = found[2]
        at = found.end()
    if (start := skip_space(text, at)) < len(text) and _is_open_attribute(text[start:]):
        raise Cut
    at = pass_literal(text, at, ">")
    if "name" not in attributes:
        raise Broken
    return attributes, at


def _is_open_attribute(rest: str) -> bool:
    """Whether the text ends within an attribute."""
    return re.fullmatch(r'\w+(=("[^"]*)?)?', rest) is not None


def _argument(name: str, value: str, string: str | None, schema: Mapping[str, object]) -> dict[str, object]:
    """One argument: what the markup says its value is, or else what the schema says."""
    if string == "true":
        return {name: value}
    if string == "false":
        try:
            return {name: loads(value)}
        except ValueError:
            return decode_arguments([(name, value)], schema)
    return decode_arguments([(name, value)], schema)


DEEPSEEK: Final = Deepseek()
DSML: Final = Dsml()
FORMATS: tuple[ToolFormat, ...] = (DEEPSEEK, DSML)


def detects(template: str, tokens: frozenset[str]) -> ToolFormat | None:
    """The family of a model with this chat template and these special tokens, if it is one of DeepSeek's.

    Tokenizers that know DSML know the older markup's tokens as well, so DSML is looked for first.
    """
    if "｜DSML｜" in template or any("｜DSML｜" in token for token in tokens):
        return DSML
    marker = DEEPSEEK.section[0]
    return DEEPSEEK if marker in template or marker in tokens else None
