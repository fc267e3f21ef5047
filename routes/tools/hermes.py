"""The markup of Hermes and Qwen: `<tool_call>{"name": …, "arguments": …}</tool_call>`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from routes.tools.envelope import read_calls
from routes.tools.format import Calls, Incomplete, NotMarkup, Scan, ToolFormat, Tools
from routes.tools.repair import find_outside, json_end, repair

_OPENER: Final = "<tool_call>"
_CLOSER: Final = "</tool_call>"
_JSON: Final = re.compile(r"\s*[{\[]")
_SURPLUS: Final = re.compile(r"[\s}\]]*")


@dataclass(frozen=True, slots=True)
class HermesFormat:
    """Calls as JSON between tags."""

    name: str = "hermes"
    openers: tuple[str, ...] = (_OPENER,)
    bare: tuple[str, ...] = ()
    closers: tuple[str, ...] = (_CLOSER,)
    markers: tuple[str, ...] = (_OPENER, _CLOSER)

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        """Look at text that begins with the opener."""
        start = _json_start(text)
        if start is None:
            return NotMarkup(_bound(text, len(_OPENER)))
        end = json_end(text, start)
        if end is not None:
            return _settled(text[start:end], _after(text, end), tools)
        # Brackets are missing. A closer inside of a string may belong to it, so there it ends nothing before the end.
        closer = find_outside(text, _CLOSER, start)
        if closer is None and not final:
            return Incomplete()
        if closer is None:
            return _broken(text, start, tools)
        return _settled(text[start:closer], closer + len(_CLOSER), tools)


def _json_start(text: str) -> int | None:
    """Where the JSON begins: at once, or after prose that holds no tag."""
    start = _JSON.match(text, len(_OPENER))
    if start is not None:
        return start.end() - 1
    brace = text.find("{", len(_OPENER), _bound(text, len(_OPENER)))
    return None if brace < 0 else brace


def _bound(text: str, start: int) -> int:
    """End of the markup that begins before `start`, going by tags alone: after its closer, or before another opener."""
    opener = text.find(_OPENER, start)
    end = len(text) if opener < 0 else opener
    closer = text.find(_CLOSER, start, end)
    return end if closer < 0 else closer + len(_CLOSER)


def _after(text: str, end: int) -> int:
    """End of markup whose JSON ends at `end`: its closer, with all before it, or else surplus brackets."""
    surplus = _SURPLUS.match(text, end)
    bound = _bound(text, end)
    if text.endswith(_CLOSER, end, bound):
        return bound
    return end if surplus is None else surplus.end()


def _broken(text: str, start: int, tools: Tools) -> Scan:
    """No more text comes, and the JSON has a string without an end or no closer: one that only the repair can read."""
    closer = text.find(_CLOSER, start)
    if closer >= 0:
        return _settled(text[start:closer], closer + len(_CLOSER), tools)
    # A number or a word that the text ends in may be half of one.
    whole = text.rstrip().endswith(("}", "]", '"', "'", ","))
    return _settled(text[start:], len(text), tools) if whole else NotMarkup(len(text))


def _settled(json: str, end: int, tools: Tools) -> Scan:
    value = repair(json)
    calls = read_calls(value, tools) if value else ()
    return Calls(calls, end) if calls else NotMarkup(end)


HERMES: Final = HermesFormat()
"""Qwen 2.5 and 3, Hermes and many others."""

FORMATS: Final[tuple[ToolFormat, ...]] = (HERMES,)
