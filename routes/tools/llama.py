"""Llama's markup: JSON objects and `<function=name>` elements. Pure."""

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
    pass_closer,
    read_envelope,
    read_object,
    read_word,
    skip_space,
    taken_or_plain,
)

_FUNCTION_NAME: Final = re.compile(r"[^\s<>]+")


@dataclass(frozen=True, slots=True)
class LlamaJson:
    """Llama 3: `{"name": …, "parameters": …}`, several separated by `;`, or `<function=name>{…}</function>`."""

    name: str = "llama"
    """As settings name it."""
    tag: str = "<|python_tag|>"
    """What may stand before the objects."""
    element: tuple[str, str] = ("<function=", "</function>")
    """What stands around a call that is an element."""

    @property
    def openers(self) -> tuple[str, ...]:
        """The tag, and the element's."""
        return self.tag, self.element[0]

    @property
    def bare(self) -> tuple[str, ...]:
        """An object's."""
        return ("{",)

    @property
    def closers(self) -> tuple[str, ...]:
        """The element's. Objects have none: only the text's end says that no further one comes."""
        return (self.element[1],)

    @property
    def markers(self) -> tuple[str, ...]:
        """Every literal of the markup, for special tokens that would not be shown otherwise."""
        return self.tag, *self.element

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        """Look at text that begins with an opener or with `{`."""
        if text.startswith(self.element[0]):
            return self._scan_element(text, tools, final)
        start = len(self.tag) if text.startswith(self.tag) else 0
        return _scan_objects(text, start, tools, final)

    def _scan_element(self, text: str, tools: Tools, final: bool) -> Scan:
        opener, closer = self.element
        try:
            name, at = read_word(text, len(opener), ">", _FUNCTION_NAME)
            arguments, at = read_object(text, at, (closer,), final)
            at = pass_closer(text, at, closer, final)
        except (Cut, Broken) as error:
            waits = isinstance(error, Cut) and not final
            return Incomplete() if waits else NotMarkup(len(opener))
        call = make_call(name, arguments, tools)
        return NotMarkup(at) if call is None else Calls((call,), at)


def _scan_objects(text: str, at: int, tools: Tools, final: bool) -> Scan:
    """Scan objects from `at` on. The calls before the first object that is none are taken."""
    calls: list[ToolCall] = []
    taken, plain = at, max(at, 1)
    while not calls or text.startswith("{", at):
        try:
            found, plain = read_envelope(text, at, tools, final)
        except (Cut, Broken) as error:
            waits = isinstance(error, Cut) and not final
            return Incomplete() if waits else taken_or_plain(calls, taken, plain)
        if not found:
            break
        calls += found
        taken = plain
        at = skip_space(text, taken)
        at = skip_space(text, at + 1) if text.startswith(";", at) else at
        if at == len(text) and not final:
            return Incomplete()
    return taken_or_plain(calls, taken, plain)


LLAMA: Final = LlamaJson()
FORMATS: tuple[ToolFormat, ...] = (LLAMA,)


def detects(template: str, tokens: frozenset[str]) -> ToolFormat | None:
    """The family of a model with this chat template and these special tokens, if it is Llama's."""
    asks = LLAMA.tag in template or LLAMA.element[0] in template or '"parameters": dictionary' in template
    return LLAMA if asks or LLAMA.tag in tokens else None
