"""Token ids to text, a token at a time. Pure.

A token is not text: a character may be spread over several tokens, and what a token reads as may depend on the one
before it (a leading space that is dropped only at the very start). So a short window of recent tokens is decoded
again with each new one, and what has been added to its text is new. Tokens are taken one by one whatever the size
of the batch they come in, hence any cut of a stream gives the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

Decode = Callable[[Sequence[int]], str]
"""Text of token ids; bytes that are no valid UTF-8 read as U+FFFD."""

_UNFINISHED = "\ufffd"
_WINDOW = 32
"""Tokens after which a window that never ends in a whole character is given up as broken bytes."""


class Detokenizer:
    """One row's text. Tokens in `skip` (special ones) have none."""

    def __init__(self, decode: Decode, skip: Container[int] = frozenset()) -> None:
        self._decode = decode
        self._skip = skip
        self._window: list[int] = []
        self._context = 0
        """Tokens at the start of the window that are shown in full; they are there for their neighbours' sake."""
        self._shown = 0
        """Characters of the window's text that have been returned."""

    def feed(self, token: int) -> str:
        """Take the next token and return the text that is certain now. Unfinished characters are held back."""
        if token in self._skip:
            return ""
        self._window.append(token)
        text = self._decode(self._window)
        certain = len(text.rstrip(_UNFINISHED)) if text.endswith(_UNFINISHED) else len(text)
        new = text[self._shown : certain]
        if certain == len(text) and new:
            self._slide()
        elif len(self._window) - self._context >= _WINDOW:
            new = text[self._shown :]
            self._slide()
        else:
            self._shown = max(self._shown, certain)
        return new

    def flush(self) -> str:
        """The row has ended: return what was held back, broken bytes as U+FFFD."""
        if not self._window:
            return ""
        text = self._decode(self._window)
        new = text[self._shown :]
        self._shown = max(self._shown, len(text))
        return new

    def _slide(self) -> None:
        """Keep only the tokens since the last slide: everything in the window has been returned."""
        del self._window[: self._context]
        self._context = len(self._window)
        self._shown = len(self._decode(self._window))
