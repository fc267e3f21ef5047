"""The time before a grammar begins: anything may be written until the text that ends the thinking block."""

from __future__ import annotations

import functools

import numpy as np

from actors.generation.grammar.tokens import WHITESPACE, Tokens


class Thinking:
    """Follows one row's tokens up to the closing text. Engine thread only.

    The end of the answer is forbidden meanwhile, and so are tokens that would run across the closing text into the
    answer: those the grammar never saw. Whitespace on the closing token is dropped.

    Args:
        tokens: the vocabulary.
        closing: the text; one special token or any number of ordinary ones.
    """

    def __init__(self, tokens: Tokens, closing: str) -> None:
        self._tokens = tokens
        self._closing = closing.encode()
        self._single = tokens.special.get(closing)
        self._masks = _masks(tokens, self._closing)
        self._tail = b""
        self.over = not self._closing
        """Whether the closing text has been written."""

    def accept(self, token: int) -> None:
        """Take the next token."""
        self._tail += self._tokens.texts[token]
        self.over = token == self._single or self._closing in self._tail
        self._tail = self._tail[-len(self._closing) :]

    def fill(self, row: np.ndarray) -> None:
        """Write the mask of the next token."""
        row[:] = self._masks[_begun(self._tail, self._closing)]


def _begun(tail: bytes, closing: bytes) -> int:
    """How much of `closing` the end of `tail` has written already."""
    for length in range(min(len(tail), len(closing) - 1), 0, -1):
        if tail.endswith(closing[:length]):
            return length
    return 0


@functools.lru_cache(maxsize=8)
def _masks(tokens: Tokens, closing: bytes) -> list[np.ndarray]:
    """The mask by the number of bytes that are written of `closing`; a fifth of a second the first time."""
    masks = []
    for begun in range(max(1, len(closing))):
        written = closing[:begun]
        crossing = [token for token, text in enumerate(tokens.texts) if _crosses(written + text, closing)]
        masks.append(~tokens.mask([*crossing, *tokens.stops]))
    return masks


def _crosses(text: bytes, closing: bytes) -> bool:
    _, found, rest = text.partition(closing)
    return bool(found) and bool(rest.strip(WHITESPACE))
