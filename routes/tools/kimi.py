"""Kimi's markup: a section of calls, each with its arguments as JSON. DeepSeek's sections are read alike. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from routes.parts import ToolCall
from routes.tools.envelope import make_call
from routes.tools.format import Calls, Incomplete, NotMarkup, Scan, ToolFormat, Tools
from routes.tools.repair import json_end, loads, repair


class Cut(Exception):
    """The text ends inside the markup."""


class Broken(Exception):
    """The text is no markup, and more text would not make it any."""


ReadCall = Callable[[str, int, Tools, bool], tuple[str, dict[str, object], int]]
"""Reads (text, where, tools, final) what follows a call's opener: name, arguments and where the call's closer ends.
Raises `Cut` and `Broken`."""

_WORD: Final = re.compile(r"[^\s<]+")
_KEY: Final = re.compile(r"""\{\s*(?:["'}A-Za-z_$]|\Z)""")
_SPACE: Final = re.compile(r"\s*")


def skip_space(text: str, at: int) -> int:
    """Where the next character that is no whitespace stands, or the end of the text."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def is_beginning(text: str, at: int, literal: str) -> bool:
    """Whether all that is left of the text begins `literal` without completing it. Nothing left begins everything."""
    return len(text) - at < len(literal) and literal.startswith(text[at:])


def pass_literal(text: str, at: int, literal: str) -> int:
    """Where the text goes on after whitespace and `literal`. Raises `Cut` and `Broken`."""
    at = skip_space(text, at)
    if text.startswith(literal, at):
        return at + len(literal)
    raise Cut if is_beginning(text, at, literal) else Broken


def pass_closer(text: str, at: int, closer: str, final: bool) -> int:
    """Where the text goes on after a closer that the model may have forgotten. Raises `Cut`, but not when `final`."""
    try:
        return pass_literal(text, at, closer)
    except Broken:
        return at
    except Cut:
        if final:
            return len(text)
        raise


def read_word(text: str, at: int, following: str, word: re.Pattern[str] = _WORD) -> tuple[str, int]:
    """A name and where the text goes on after the literal that follows it. Raises `Cut` and `Broken`."""
    at = skip_space(text, at)
    found = word.match(text, at)
    if found is None:
        raise Cut if at == len(text) else Broken
    return found.group(), pass_literal(text, found.end(), following)


def read_object(text: str, at: int, stops: tuple[str, ...], final: bool) -> tuple[dict[str, object], int]:
    """The object that stands at `at`, repaired if need be, and where it ends.

    Args:
        text: the text.
        at: where it begins, leading whitespace aside.
        stops: literals of which one follows the object: where a broken one ends. None if only the text's end says it.
        final: there will be no more text.

    Raises:
        Cut: the object is not complete.
        Broken: there is no object, or one beyond repair.
    """
    at = pass_literal(text, at, "{") - 1
    if _KEY.match(text, at) is None:
        raise Broken  # at once: text that repeats itself must not be searched for an end again and again
    end = json_end(text, at)
    if end is None and not final:
        raise Cut
    if end is not None and (strict := _strict(text[at:end])) is not None:
        return strict, end
    found = [where for stop in stops if (where := text.find(stop, end or at)) >= 0]
    if stops and not found and not final:
        raise Cut
    stop = min(found, default=end or len(text))
    value = repair(text[at:stop])
    # An empty object that was cut off might have had arguments.
    if not isinstance(value, dict) or not (value or end):
        raise Broken
    return cast("dict[str, object]", value), stop


def _strict(text: str) -> dict[str, object] | None:
    """The object, if the text is JSON of one."""
    try:
        value = loads(text)
    except ValueError:
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def scan_section(text: str, frame: tuple[str, str], opener: str, read: ReadCall, tools: Tools, final: bool) -> Scan:
    """Scan a section of calls, or calls that stand without one.

    The calls before the first that is broken or not offered are taken; that one is looked at anew, by its own opener.

    Args:
        text: begins with the section's opener or with a call's.
        frame: the section's opener and closer.
        opener: what every call begins with.
        read: reads one call from behind its opener.
        tools: what may be called.
        final: there will be no more text.
    """
    calls: list[ToolCall] = []
    at = taken = len(frame[0]) if text.startswith(frame[0]) else 0
    while text.startswith(opener, at := skip_space(text, at)):
        plain = at + len(opener)
        try:
            name, arguments, at = read(text, plain, tools, final)
        except (Cut, Broken) as error:
            waits = isinstance(error, Cut) and not final
            return Incomplete() if waits else taken_or_plain(calls, taken, plain)
        call = make_call(name, arguments, tools)
        if call is None:
            return taken_or_plain(calls, taken, at)
        calls.append(call)
        taken = at
    if text.startswith(frame[1], at):
        end = at + len(frame[1])
        return taken_or_plain(calls, end, end)
    if is_beginning(text, at, opener) or is_beginning(text, at, frame[1]):
        return taken_or_plain(calls, len(text), len(text)) if final else Incomplete()
    return taken_or_plain(calls, taken, at)


def taken_or_plain(calls: list[ToolCall], end: int, plain: int) -> Scan:
    """The calls up to `end`, or if there are none, text up to `plain`."""
    return Calls(tuple(calls), end) if calls else NotMarkup(plain)


@dataclass(frozen=True, slots=True)
class Kimi:
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
    def openers(self) -> tuple[str, ...]:
        """A model that forgets the section still marks its calls."""
        return self.section[0], self.call[0]

    @property
    def bare(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    @property
    def closers(self) -> tuple[str, ...]:
        """The section's."""
        return (self.section[1],)

    @property
    def markers(self) -> tuple[str, ...]:
        """Every literal of the markup, for special tokens that would not be shown otherwise."""
        return (*self.section, *self.call, self.separator)

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        """Look at text that begins with an opener."""
        return scan_section(text, self.section, self.call[0], self._read, tools, final)

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
