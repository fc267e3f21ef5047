"""Finds the calls in a model's text, whatever the family of their markup. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from routes.parts import Content, Part, joined
from routes.tools.format import Calls, Incomplete, NotMarkup, ToolFormat, Tools

_WHITESPACE: Final = " \t\r\n"
_EAGER_SCANS: Final = 32
"""Closers after which the markup is scanned each time; later ones wait until it has grown by a sixteenth.

So the time stays near-linear when an argument is full of closers. It goes by positions in the text, not by pieces, so
how the text is cut still makes no difference.
"""
_MOST_MISTAKES: Final = 32
"""Places in an answer that may look like markup and be none; after so many, the rest is content without a look at it.

Each may cost a scan of all that follows, so a model that loops on an opener would take time quadratic in its answer.
"""


class ToolSplitter:
    """Text passes live; only markup is held back, and whitespace until it is known that no call follows it."""

    def __init__(self, format: ToolFormat, tools: Tools, parallel: bool = True) -> None:
        """Look for one family's markup.

        Args:
            format: the family.
            tools: what may be called.
            parallel: whether an answer may hold several calls; if not, all after the first is dropped.
        """
        self._format = format
        self._tools = tools
        self._parallel = parallel
        self._held = ""
        self._space: list[str] = []
        self._markup: _Markup | None = None
        self._begun = False
        self._after_call = False
        self._mistakes = 0
        self.done = False
        """Whether the only call allowed is complete: nothing comes any more, and the row may end."""

    @property
    def buffering(self) -> bool:
        """Whether markup is being held back until it is complete."""
        return self._markup is not None

    def feed(self, text: str) -> list[Part]:
        """Take more text and return the parts that are certain now."""
        parts: list[Part] = []
        while text and not self.done:
            text = self._pass(text, parts) if self._markup is None else self._collect(self._markup, text, parts)
        return joined(parts)

    def flush(self) -> list[Part]:
        """The text has ended: markup that is not complete is read as far as it can be, and else is content."""
        parts: list[Part] = []
        while self._markup is not None:
            text = self._markup.text()
            scan = self._format.scan(text, self._tools, True)
            rest = self._settle(NotMarkup(len(text)) if isinstance(scan, Incomplete) else scan, text, parts)
            if isinstance(scan, Calls) and self._cut_off(rest):
                rest = ""
            parts += self.feed(rest)
        held, self._held = self._held, ""
        self._show(held, parts)
        space = self._take_space()
        return joined([*parts, Content(space)] if space else parts)

    def _cut_off(self, rest: str) -> bool:
        """Whether what follows a call at the end of all text is only the beginning of its closing marks."""
        begun = rest.strip(_WHITESPACE)
        return bool(begun) and any(marker.startswith(begun) for marker in self._format.markers)

    def _pass(self, text: str, parts: list[Part]) -> str:
        """Show text up to an opener and return what is left to look at."""
        if self._mistakes >= _MOST_MISTAKES:
            self._show(text, parts)
            return ""
        pending = self._held + text
        start = self._opening(pending)
        if start is not None:
            self._held = ""
            self._show(pending[:start], parts)
            self._markup = _Markup(self._format.closers)
            return pending[start:]
        safe = len(pending) - self._uncertain(pending)
        self._held = pending[safe:]
        self._show(pending[:safe], parts)
        return ""

    def _opening(self, pending: str) -> int | None:
        """Where markup begins: at the opener that is complete first, for that doesn't depend on the pieces."""
        found = (len(pending) + 1, -1)
        if not self._begun:
            first = len(pending) - len(pending.lstrip(_WHITESPACE))
            bare = [(first + len(bare), first) for bare in self._format.bare if pending.startswith(bare, first)]
            found = min([found, *bare])
        for opener in self._format.openers:
            at = pending.find(opener, 0, found[0])
            if at >= 0:
                found = min(found, (at + len(opener), at))
        return found[1] if found[1] >= 0 else None

    def _uncertain(self, pending: str) -> int:
        """Length of the longest end of the text that may begin an opener."""
        longest = max((_overlap(pending, opener) for opener in self._format.openers), default=0)
        if not self._begun:
            first = pending.lstrip(_WHITESPACE)
            if any(first and bare.startswith(first) for bare in self._format.bare):
                longest = max(longest, len(first))
        return longest

    def _show(self, text: str, parts: list[Part]) -> None:
        """Let text through, but for whitespace at its end; after a call whitespace says nothing."""
        if self._after_call:
            text = text.lstrip(_WHITESPACE)
        body = text.rstrip(_WHITESPACE)
        if body:
            self._begun = True
            self._after_call = False
            parts.append(Content(self._take_space() + body))
        if len(body) < len(text):
            self._space.append(text[len(body) :])

    def _take_space(self) -> str:
        space = "".join(self._space)
        self._space.clear()
        return space

    def _collect(self, markup: _Markup, text: str, parts: list[Part]) -> str:
        """Hold text back and look at what is held once a closer has come; return what comes after the markup."""
        markup.add(text)
        while (end := markup.next_end()) is not None:
            held = markup.text()
            scan = self._format.scan(held[:end], self._tools, False)
            if not isinstance(scan, Incomplete):
                return self._settle(scan, held, parts)
        return ""

    def _settle(self, scan: Calls | NotMarkup, text: str, parts: list[Part]) -> str:
        """The markup is understood: return the text after it."""
        self._markup = None
        end = max(1, scan.end)
        if isinstance(scan, NotMarkup):
            self._mistakes += 1
            self._show(text[:end], parts)
            return text[end:]
        self._space.clear()
        self._begun = self._after_call = True
        parts += scan.calls if self._parallel else scan.calls[:1]
        self.done = not self._parallel
        return "" if self.done else text[end:]


class _Markup:
    """Text from an opener on, and which of its closers have been tried."""

    def __init__(self, closers: Sequence[str]) -> None:
        self._closers = closers
        self._overlap = max((len(closer) for closer in closers), default=1) - 1
        self._pieces: list[str] = []
        self._length = 0
        self._recent = ""
        """The end of the text: all of it in which a closer may be that has not been tried."""
        self._tried = 0
        """Closers that end up to here are done with."""
        self._scans = 0

    def add(self, text: str) -> None:
        """Append text."""
        self._pieces.append(text)
        self._length += len(text)
        self._recent += text

    def text(self) -> str:
        """All of it."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def next_end(self) -> int | None:
        """Where the next closer to be tried ends; None if more text has to come first."""
        offset = self._length - len(self._recent)
        ends: list[int] = []
        for closer in self._closers:
            at = self._recent.find(closer, max(0, self._tried - offset - len(closer) + 1))
            if at >= 0:
                ends.append(offset + at + len(closer))
        if not ends:
            self._recent = self._recent[-self._overlap :] if self._overlap else ""
            return None
        end = min(ends)
        self._scans += 1
        self._tried = end if self._scans < _EAGER_SCANS else end + end // 16
        return end


def _overlap(text: str, opener: str) -> int:
    """Length of the longest end of `text` that begins `opener` without completing it."""
    for length in range(min(len(opener) - 1, len(text)), 0, -1):
        if text.endswith(opener[:length]):
            return length
    return 0
