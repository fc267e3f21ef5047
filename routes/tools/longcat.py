"""LongCat's markup: a name, then elements with a key and a raw value each. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from routes.parts import ToolCall
from routes.tools.envelope import make_call
from routes.tools.format import Calls, Incomplete, NotMarkup, Scan, ToolFormat, Tools
from routes.tools.reading import Broken, Cut, is_beginning, pass_closer, pass_literal, read_envelope, skip_space
from routes.tools.schema import decode_arguments

_NAME: Final = re.compile(r"[^\s<{]+")
_VALUE_END: Final = re.compile(r"</longcat_arg_value>(?=\s*(?:<longcat_arg_key>|</longcat_tool_call>))")


@dataclass(frozen=True, slots=True)
class Longcat:
    """A scan takes one call."""

    name: str = "longcat"
    """As settings name it."""
    call: tuple[str, str] = ("<longcat_tool_call>", "</longcat_tool_call>")
    """What stands around each call."""
    key: tuple[str, str] = ("<longcat_arg_key>", "</longcat_arg_key>")
    """What stands around the name of an argument."""
    value: tuple[str, str] = ("<longcat_arg_value>", "</longcat_arg_value>")
    """What stands around the value of an argument."""

    @property
    def openers(self) -> tuple[str, ...]:
        """The call's."""
        return (self.call[0],)

    @property
    def bare(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    @property
    def closers(self) -> tuple[str, ...]:
        """The call's."""
        return (self.call[1],)

    @property
    def markers(self) -> tuple[str, ...]:
        """Every literal of the markup, for special tokens that would not be shown otherwise."""
        return *self.call, *self.key, *self.value

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        """Look at text that begins with the opener. The call may be a JSON object as well."""
        at = skip_space(text, len(self.call[0]))
        try:
            read = read_envelope if text.startswith("{", at) else self._read
            calls, at = read(text, at, tools, final)
            at = pass_closer(text, at, self.call[1], final)
        except (Cut, Broken) as error:
            waits = isinstance(error, Cut) and not final
            return Incomplete() if waits else NotMarkup(len(self.call[0]))
        return Calls(calls, at) if calls else NotMarkup(at)

    def _read(self, text: str, at: int, tools: Tools, final: bool) -> tuple[tuple[ToolCall, ...], int]:
        """The call (none if nobody offered it) and where its last argument ends. Raises `Cut` and `Broken`."""
        name = _NAME.match(text, at)
        if name is None:
            raise Cut if at == len(text) else Broken
        pairs: list[tuple[str, str]] = []
        at = skip_space(text, name.end())
        while text.startswith(self.key[0], at):
            pair, at = self._read_pair(text, at + len(self.key[0]), final)
            pairs.append(pair)
            at = skip_space(text, at)
        if is_beginning(text, at, self.key[0]) and not (final and pairs):
            raise Cut
        if not pairs:
            # A name alone is a call only if it is closed: anything may follow a marker that the user is told about.
            pass_literal(text, at, self.call[1])
        call = make_call(name.group(), decode_arguments(pairs, tools.get(name.group(), {})), tools)
        return (() if call is None else (call,)), at

    def _read_pair(self, text: str, at: int, final: bool) -> tuple[tuple[str, str], int]:
        """Name and raw value of one argument, from behind the opener of its name. Raises `Cut` and `Broken`."""
        end = text.find(self.key[1], at)
        if end < 0:
            raise Cut
        start = pass_literal(text, end + len(self.key[1]), self.value[0])
        # A value may mention its own closer: the one that counts is followed by what can follow an argument.
        found = _VALUE_END.search(text, start)
        stop = text.rfind(self.value[1], start) if found is None and final else found.start() if found else -1
        if stop < 0:
            raise Cut
        return (text[at:end].strip(), text[start:stop]), stop + len(self.value[1])


FORMATS: tuple[ToolFormat, ...] = (Longcat(),)


def detects(template: str, tokens: frozenset[str]) -> ToolFormat | None:
    """The family of a model with this chat template and these special tokens, if it is LongCat's."""
    marker = "<longcat_tool_call>"
    return FORMATS[0] if marker in template or marker in tokens else None
