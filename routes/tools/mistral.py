"""Mistral's markup: a marker, then a JSON array of calls (older models) or a name and JSON (newer ones). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from routes.parts import ToolCall
from routes.tools.envelope import make_call
from routes.tools.format import Calls, Incomplete, NotMarkup, Scan, ToolFormat, Tools
from routes.tools.reading import (
    Broken,
    Cut,
    pass_literal,
    read_envelope,
    read_object,
    read_word,
    skip_space,
    taken_or_plain,
)

_NAME: Final = re.compile(r"[^\s\[\]{}]+")
_UNMARKED: Final = re.compile(r"([^\s\[\]{}]+)\s*(?=\{)")


@dataclass(frozen=True, slots=True)
class Mistral:
    """A scan takes one marker's calls: an array, or a single one."""

    name: str = "mistral"
    """As settings name it."""
    opener: str = "[TOOL_CALLS]"
    """What begins an array, or each call."""
    call_id: str = "[CALL_ID]"
    """What stands between name and id, where there is an id."""
    separator: str = "[ARGS]"
    """What stands before the arguments."""

    @property
    def openers(self) -> tuple[str, ...]:
        """The marker."""
        return (self.opener,)

    @property
    def bare(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    @property
    def closers(self) -> tuple[str, ...]:
        """None: only the text's end says that an array or an object is complete."""
        return ()

    @property
    def markers(self) -> tuple[str, ...]:
        """Every literal of the markup, for special tokens that would not be shown otherwise."""
        return self.opener, self.call_id, self.separator

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        """Look at text that begins with the marker."""
        at = skip_space(text, len(self.opener))
        if text.startswith("[", at):
            return self._scan_array(text, at + 1, tools, final)
        try:
            name, at = self._read_name(text, at)
            arguments, at = read_object(text, at, (self.opener,), final)
        except (Cut, Broken) as error:
            waits = isinstance(error, Cut) and not final
            return Incomplete() if waits else NotMarkup(len(self.opener))
        call = make_call(name, arguments, tools)
        return NotMarkup(at) if call is None else Calls((call,), at)

    def _read_name(self, text: str, at: int) -> tuple[str, int]:
        """The function's name and where its arguments begin. Raises `Cut` and `Broken`."""
        # A separator is missing where special tokens were dropped on the way.
        if unmarked := _UNMARKED.match(text, at):
            return unmarked[1], unmarked.end()
        try:
            return read_word(text, at, self.separator, _NAME)
        except Broken:
            name, at = read_word(text, at, self.call_id, _NAME)
        _, at = read_word(text, at, self.separator, _NAME)
        return name, at

    def _scan_array(self, text: str, at: int, tools: Tools, final: bool) -> Scan:
        """Scan from behind the array's `[`. The calls before the first that cannot be made are taken."""
        calls: list[ToolCall] = []
        taken = plain = len(self.opener)
        while not text.startswith("]", at := skip_space(text, at)):
            try:
                at = pass_literal(text, at, ",") if calls else at
                found, plain = read_envelope(text, at, tools, final)
            except (Cut, Broken) as error:
                waits = isinstance(error, Cut) and not final
                return Incomplete() if waits else taken_or_plain(calls, taken, plain)
            if not found:
                return taken_or_plain(calls, taken, plain)
            calls += found
            at = taken = plain
        return taken_or_plain(calls, at + 1, at + 1)


MISTRAL: Final = Mistral()
FORMATS: tuple[ToolFormat, ...] = (MISTRAL,)


def detects(template: str, tokens: frozenset[str]) -> ToolFormat | None:
    """The family of a model with this chat template and these special tokens, if it is Mistral's."""
    return MISTRAL if MISTRAL.opener in template or MISTRAL.opener in tokens else None
