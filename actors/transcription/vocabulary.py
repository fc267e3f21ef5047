"""What the model is told before it listens: the prompt, and terms to expect, within 223 tokens. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Encode = Callable[[str], list[int]]


def plainly(tokenizer: Any) -> Encode:
    """How a Whisper tokenizer encodes what people write: the names of its special tokens are text like any other."""
    return lambda text: tokenizer.encode(text, disallowed_special=())


@dataclass(frozen=True, slots=True)
class VocabularyReport:
    """What became of the terms."""

    included: tuple[str, ...]
    """Told to the model, whole."""
    omitted: tuple[str, ...]
    """Not told: there was no room for them."""
    token_count: int
    """Tokens of prompt and terms together."""
    token_budget: int
    """Tokens there is room for."""

    def plain(self) -> dict[str, object]:
        """As it is sent."""
        return {
            "included": list(self.included),
            "omitted": list(self.omitted),
            "token_count": self.token_count,
            "token_budget": self.token_budget,
        }


def opening(
    prompt: str, vocabulary: Sequence[str], encode: Encode, budget: int
) -> tuple[list[int], VocabularyReport | None]:
    """The tokens before the first window, `budget` of them at most, and a report where there were terms.

    The end of a prompt that is too long is kept. Terms come behind it, in order, each of them whole or not at all.
    """
    prompt = prompt.strip()
    tokens = encode(" " + prompt)[-budget:] if prompt else []
    if not vocabulary:
        return tokens, None
    included: list[str] = []
    omitted: list[str] = []
    for term in vocabulary:
        added = encode(f", {term}" if included else f" {term}")
        if len(tokens) + len(added) > budget:
            omitted.append(term)
            continue
        tokens = tokens + added
        included.append(term)
    return tokens, VocabularyReport(tuple(included), tuple(omitted), len(tokens), budget)
