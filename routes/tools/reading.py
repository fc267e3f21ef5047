"""Readers of what several families write: names, literals, JSON objects and sections of calls. Pure.

They take the text and a place in it, and return where the text goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, cast

from routes.parts import ToolCall
from routes.tools.envelope import make_call, read_calls
from routes.tools.format import Calls, Incomplete, NotMarkup, Scan, Tools
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


def read_envelope(text: str, at: int, tools: Tools, final: bool) -> tuple[tuple[ToolCall, ...], int]:
    """The call that a JSON object around it makes (none if it makes none) and where the object ends.

    Raises:
        Cut: the object is not complete.
        Broken: there is no object, or one that was cut off before its arguments.
    """
    envelope, end = read_object(text, at, (), final)
    if not text.endswith("}", at, end) and not envelope.keys() & {"arguments", "parameters"}:
        raise Broken
    return read_calls(envelope, tools), end


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
