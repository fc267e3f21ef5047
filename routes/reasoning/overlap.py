"""How much of a text's end may turn out to begin a literal. Pure."""

from __future__ import annotations


def overlap(text: str, literal: str) -> int:
    """Length of the longest end of `text` that begins `literal` without completing it."""
    for length in range(min(len(literal) - 1, len(text)), 0, -1):
        if text.endswith(literal[:length]):
            return length
    return 0
