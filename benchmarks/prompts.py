"""Prompts that no cache has seen: each is made of a number that is used once."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path

from tokenizers import Tokenizer

_PLACES = ("harbour", "desert", "library", "mountain", "island", "station", "garden", "lighthouse", "market", "forest")
_WORDS = ("river", "stone", "window", "paper", "morning", "winter", "teacher", "silver", "bridge", "letter", "village")
_REQUEST = "\n\nWrite a long story about the sea."
"""Ends a long prompt. Words alone leave a small model with nothing to say, and a measure without a token."""


class Prompts:
    """Fresh prompts for one checkpoint. Two with the same seed give the same ones in the same order.

    Args:
        folder: the checkpoint, for its tokenizer.
        seed: where to begin.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._numbers = count(seed * 10_000 + 1)

    def short(self) -> str:
        """About fifteen tokens, and something to say for longer than a measurement lasts."""
        number = next(self._numbers)
        return f"{number}: write a long story about a {_PLACES[number % len(_PLACES)]} and the sea."

    def long(self, tokens: int) -> str:
        """`tokens` tokens, or up to a sentence more, different from other prompts from its first sentence on."""
        number = next(self._numbers)
        chosen = random.Random(number)
        text = f"Here are the notes of journey {number}."
        missing = tokens - self.length(text) - self.length(_REQUEST)
        while missing > 0:
            sentence = " On the {} there was a {}.".format(*chosen.choices(_WORDS, k=2))
            text += sentence
            # Tokenizers do not merge across words, so lengths add up.
            missing -= self.length(sentence)
        return text + _REQUEST

    def length(self, text: str) -> int:
        """Tokens of `text`, without what a chat template adds."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
