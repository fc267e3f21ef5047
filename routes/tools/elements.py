"""Markup that writes a call as elements: one for the function, one for each argument with its raw value. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from routes.parts import ToolCall
from routes.tools.envelope import make_call, read_calls
from routes.tools.format import Calls, Incomplete, NotMarkup, Scan, Tools
from routes.tools.repair import json_end, repair
from routes.tools.schema import decode_arguments

_SPACE: Final = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of one family, each pattern to be matched where the text before has ended."""

    head: re.Pattern[str]
    """Begins a call; its group `name` is the function."""
    key: re.Pattern[str]
    """Begins an argument; its group `key` is the argument's name."""
    tail: re.Pattern[str]
    """Ends a call, directly after its head or its last argument."""
    last_tail: re.Pattern[str]
    """Ends a call when there will be no more text."""
    value_end: str
    """Literal that ends an argument's value, if `key` or `tail` follows it: a value may contain the literal."""
    value: Callable[[str], str] = str
    """What a raw value stands for."""
    name: Callable[[str], str] = str
    """What the name of a function or an argument stands for."""
    whole: Callable[[str, int, int], bool] = lambda text, start, end: True
    """Whether text[start:end] can be a whole value."""


@dataclass(frozen=True, slots=True)
class ElementFormat:
    """A family whose calls are elements, alone or in a wrapper around one or several of them."""

    name: str
    """As settings name it."""
    openers: tuple[str, ...]
    """Literals that begin markup."""
    closers: tuple[str, ...]
    """Literals that may complete it."""
    markers: tuple[str, ...]
    """Literals of the markup that a tokenizer may have as special tokens."""
    alone: Elements | None
    """A call without a wrapper; None if the family always has one."""
    wrapped: Elements | None
    """A call in the wrapper; None if the family never wraps them."""
    wrapper: tuple[str, str] = ("", "")
    """What begins and what ends the wrapper."""
    bare: tuple[str, ...] = ()
    """Nothing begins markup only at the beginning."""

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        """Look at text that begins with an opener."""
        if not self.begins(text):
            return NotMarkup(next(len(opener) for opener in self.openers if text.startswith(opener)))
        found = self._read(text, tools, last=False)
        if found is None and not final:
            return Incomplete()
        found = found or self._read(text, tools, last=True)
        if found is None:
            return NotMarkup(self._plain(text))
        calls, end = found
        known = [call for call in calls if call is not None]
        return Calls(tuple(known), end) if len(known) == len(calls) else NotMarkup(end)

    def begins(self, text: str) -> bool:
        """Whether a call begins here, wrapped or not. Not to be asked before a closer or the end of the text."""
        if self.wrapped is not None and text.startswith(self.wrapper[0]):
            return self.wrapped.head.match(text, _after_space(text, len(self.wrapper[0]))) is not None
        return self.alone is not None and self.alone.head.match(text) is not None

    def _read(self, text: str, tools: Tools, last: bool) -> tuple[list[ToolCall | None], int] | None:
        """The calls, and where the markup ends; None if it is not complete."""
        opener, closer = self.wrapper
        if self.wrapped is None or not text.startswith(opener):
            return _one(text, self.alone, tools, last) if self.alone else None
        calls: list[ToolCall | None] = []
        end = len(opener)
        while (found := read_element(text, _after_space(text, end), self.wrapped, tools, last)) is not None:
            call, end = found
            calls.append(call)
        after = _after_space(text, end)
        if text.startswith(closer, after) and calls:
            return calls, after + len(closer)
        # The closer was forgotten if the next wrapper follows, or nothing at all.
        return (calls, end) if calls and (last or text.startswith(opener, after)) else None

    def _plain(self, text: str) -> int:
        """Characters that are plain if the markup is broken: up to its closer, so that a later call is still found."""
        opener, closer = self.wrapper
        literal = closer if closer and text.startswith(opener) else self.closers[-1]
        at = text.find(literal)
        return len(text) if at < 0 else at + len(literal)


def read_element(
    text: str, start: int, elements: Elements, tools: Tools, last: bool
) -> tuple[ToolCall | None, int] | None:
    """Read one call.

    Args:
        text: the markup.
        start: where the call begins.
        elements: what it is made of.
        tools: what may be called.
        last: whether there will be no more text, so that the end of the text may stand for closers.

    Returns:
        The call (None if its function was not offered) and where it ends; None if no complete call stands here.
    """
    head = elements.head.match(text, start)
    if head is None:
        return None
    name = elements.name(head["name"])
    tail = elements.last_tail if last else elements.tail
    body = _object(text, head.end(), tail)
    if body is not None:
        arguments, end = body
        calls = read_calls({"name": name, "arguments": arguments}, tools)
        return (calls[0] if calls else None), end
    pairs: list[tuple[str, str]] = []
    at = head.end()
    while (key := elements.key.match(text, at)) is not None:
        end = _value_end(text, key.end(), elements, tail)
        if end is None:
            return None
        pairs.append((elements.name(key["key"]), elements.value(text[key.end() : end])))
        at = end + len(elements.value_end)
    ending = tail.match(text, at)
    if ending is None:
        return None
    return make_call(name, decode_arguments(pairs, tools.get(name, {})), tools), ending.end()


def unframed(value: str) -> str:
    """The value without one line break at either end, which the markup adds."""
    return value.removeprefix("\n").removesuffix("\n")


def _one(text: str, elements: Elements, tools: Tools, last: bool) -> tuple[list[ToolCall | None], int] | None:
    found = read_element(text, 0, elements, tools, last)
    return None if found is None else ([found[0]], found[1])


def _object(text: str, start: int, tail: re.Pattern[str]) -> tuple[object, int] | None:
    """The arguments and the call's end, if a JSON object stands where arguments should begin."""
    at = _after_space(text, start)
    end = json_end(text, at) if text.startswith("{", at) else None
    ending = tail.match(text, end) if end is not None else None
    return None if ending is None else (repair(text[at:end]), ending.end())


def _value_end(text: str, start: int, elements: Elements, tail: re.Pattern[str]) -> int | None:
    """Where the value that begins at `start` ends; None if it does not."""
    literal = elements.value_end
    at = text.find(literal, start)
    while at >= 0:
        after = at + len(literal)
        if (elements.key.match(text, after) or tail.match(text, after)) and elements.whole(text, start, at):
            return at
        at = text.find(literal, after)
    return None


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()
