"""Kimi's markup: a section of calls, each with its arguments as JSON. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from routes.tools.format import ToolFormat, Tools
from routes.tools.reading import pass_closer, read_object, read_word
from routes.tools.section import Section


@dataclass(frozen=True, slots=True)
class Kimi(Section):
    """Kimi K2: `functions.name:0`, a separator, JSON."""

    name: str = "kimi"
    """As settings name it."""
    section: tuple[str, str] = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")
    """What stands around all calls."""
    call: tuple[str, str] = ("<|tool_call_begin|>", "<|tool_call_end|>")
    """What stands around each call."""
    separator: str = "<|tool_call_argument_begin|>"
    """What stands between name and arguments."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Every literal of the markup, for special tokens that would not be shown otherwise."""
        return (*self.section, *self.call, self.separator)

    def _read(self, text: str, at: int, tools: Tools, final: bool) -> tuple[str, dict[str, object], int]:
        word, at = read_word(text, at, self.separator)
        arguments, at = read_object(text, at, (self.call[1], self.section[1]), final)
        return _name(word, tools), arguments, pass_closer(text, at, self.call[1], final)


def _name(word: str, tools: Tools) -> str:
    """The function that `functions.name:0` means; a name may itself contain dots and colons."""
    bare, _, index = word.rpartition(":")
    name = bare if bare and index.isdecimal() else word
    return name if name in tools else name.removeprefix("functions.")


FORMATS: tuple[ToolFormat, ...] = (Kimi(),)


def detects(template: str, tokens: frozenset[str]) -> ToolFormat | None:
    """The family of a model with this chat template and these special tokens, if it is Kimi's."""
    marker = "<|tool_calls_section_begin|>"
    return FORMATS[0] if marker in template or marker in tokens else None
