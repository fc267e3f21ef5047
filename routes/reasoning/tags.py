"""Thinking between two tags, such as `<think>` and `</think>`. Pure.

Which tags count:

- A start tag counts as the first thing of an answer or directly after another block, whitespace aside. Elsewhere it is
  part of the content: answers do speak about tags. (Where tags are special tokens that no text can spell, `anywhere`
  makes them count in the midst of content too.)
- An end tag counts inside a block only. One that closes nothing is content: what came before it has been shown long
  since, and it may be an answer's own words.
- Inside a block a further start tag is reasoning, except that a model may repeat the tag that its prompt ended with.

Newlines directly inside the two tags and blank lines after the end tag belong to nobody. A block that is never closed
lasts to the end of the text, which is then taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from routes.parts import Content, Part, Reasoning
from routes.reasoning.overlap import overlap

_NEWLINES = "\r\n"
_BLANK_LINES = re.compile(r"(?:[^\S\n]*\n)*")

_Step = Callable[[list[Part]], bool]
"""Does what the held text allows, adds parts, and says whether to go on with the next step."""


class TagSplitter:
    """A `Splitter` for one pair of tags."""

    done = False
    """An answer never ends for its thinking's sake."""

    def __init__(self, start: str, end: str, opened: bool, anywhere: bool = False) -> None:
        """Begin.

        Args:
            start: the tag that begins a block.
            end: the tag that ends it.
            opened: the prompt ended inside a block.
            anywhere: a start tag counts wherever it stands.
        """
        self._start = start
        self._end = end
        self._anywhere = anywhere
        self._held = ""
        self._after_block = False
        self._step: _Step = self._reopen if opened else self._begin

    @property
    def buffering(self) -> bool:
        """Whether text is held back that may be a tag, or whitespace around one."""
        return self._held != ""

    def feed(self, text: str) -> list[Part]:
        """Take more text; hold back only what may yet be a tag or whitespace around one."""
        parts: list[Part] = []
        self._held += text
        while self._held and self._step(parts):
            pass
        return parts

    def flush(self) -> list[Part]:
        """What was held back is no tag after all."""
        held, self._held = self._held, ""
        if self._step in (self._begin, self._content):
            # After a block, only whitespace can be left of it.
            return _content("" if self._after_block and not held.strip() else held)
        return _reasoning(held)

    def _begin(self, parts: list[Part]) -> bool:
        """Before the first word of an answer, or between a block and what follows it."""
        first = self._held.lstrip()
        if first.startswith(self._start):
            self._enter(first[len(self._start) :], self._open)
            return True
        if self._start.startswith(first):  # nothing but whitespace yet, or a part of the tag
            return False
        if self._after_block:
            self._held = _BLANK_LINES.sub("", self._held, count=1)
        self._step = self._content
        return True

    def _reopen(self, parts: list[Part]) -> bool:
        """The start of an answer whose block the prompt has opened."""
        first = self._held.lstrip()
        if first.startswith(self._start):
            self._enter(first[len(self._start) :], self._open)
            return True
        if self._start.startswith(first):
            return False
        self._step = self._open
        return True

    def _open(self, parts: list[Part]) -> bool:
        """Directly after a start tag."""
        self._held = self._held.lstrip(_NEWLINES)
        if self._held:
            self._step = self._reason
        return self._held != ""

    def _reason(self, parts: list[Part]) -> bool:
        """Inside a block."""
        before, tag, after = self._held.partition(self._end)
        if tag:
            parts += _reasoning(before.rstrip(_NEWLINES))
            self._after_block = True
            self._enter(after, self._begin)
            return True
        body = before[: len(before) - overlap(before, self._end)].rstrip(_NEWLINES)
        parts += _reasoning(body)
        self._held = before[len(body) :]
        return False

    def _content(self, parts: list[Part]) -> bool:
        """In the midst of content."""
        before, tag, after = self._held.partition(self._start) if self._anywhere else (self._held, "", "")
        if tag:
            parts += _content(before)
            self._enter(after, self._open)
            return True
        keep = overlap(before, self._start) if self._anywhere else 0
        parts += _content(before[: len(before) - keep])
        self._held = before[len(before) - keep :]
        return False

    def _enter(self, rest: str, step: _Step) -> None:
        self._held, self._step = rest, step


def _content(text: str) -> list[Part]:
    return [Content(text)] if text else []


def _reasoning(text: str) -> list[Part]:
    return [Reasoning(text)] if text else []
