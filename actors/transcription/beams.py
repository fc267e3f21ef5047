"""The bookkeeping of a beam search, as openai-whisper does it. Pure.

Each beam offers its likeliest tokens. Best first, what ends a sequence is put aside, until as many have ended as there
are beams, and the rest fills the beams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ended:
    """A sequence that is complete."""

    tokens: list[int]
    """Without the end token."""
    score: float
    """Sum of the log-probabilities, the end token's included."""


@dataclass(frozen=True, slots=True)
class BeamStep:
    """How the beams go on."""

    sources: list[int]
    """For each beam, the one that it continues."""
    tokens: list[int]
    """For each beam, its new token."""


class Beams:
    """One search.

    Args:
        width: beams, and complete sequences that are sought.
        end: the end token.
    """

    def __init__(self, width: int, end: int) -> None:
        self._width = width
        self._end = end
        self.said: list[list[int]] = [[] for _ in range(width)]
        """Tokens of each beam."""
        self._scores = [0.0] * width
        self._ended: dict[tuple[int, ...], float] = {}

    def begin(self, tokens: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]) -> BeamStep | None:
        """As `advance`, from the one row that all beams are at first."""
        return self._take([(0, token, score) for token, score in zip(tokens[0], scores[0], strict=True)])

    def advance(self, tokens: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]) -> BeamStep | None:
        """Take each beam's likeliest tokens, at least one more than there are beams. None when the search is over."""
        offers = [
            (beam, token, self._scores[beam] + score)
            for beam in range(self._width)
            for token, score in zip(tokens[beam], scores[beam], strict=True)
        ]
        return self._take(offers)

    def best(self) -> Ended:
        """The best complete sequence by log-probability a token; beams that have not ended fill up what lacks."""
        ended = dict(self._ended)
        for beam in sorted(range(self._width), key=lambda beam: -self._scores[beam]):
            if len(ended) >= self._width:
                break
            ended.setdefault(tuple(self.said[beam]), self._scores[beam])
        tokens, score = max(ended.items(), key=lambda item: item[1] / max(1, len(item[0])))
        return Ended(list(tokens), score)

    def _take(self, offers: list[tuple[int, int, float]]) -> BeamStep | None:
        kept: list[tuple[int, int, float]] = []
        fresh: dict[tuple[int, ...], float] = {}
        for beam, token, score in sorted(offers, key=lambda offer: -offer[2]):
            if token == self._end:
                fresh[tuple(self.said[beam])] = score
                continue
            kept.append((beam, token, score))
            if len(kept) == self._width:
                break
        for tokens, score in fresh.items():  # best first
            if len(self._ended) >= self._width:
                break
            self._ended[tokens] = score
        self.said = [[*self.said[beam], token] for beam, token, _ in kept]
        self._scores = [score for _, _, score in kept]
        if len(self._ended) >= self._width or len(kept) < self._width:
            return None
        return BeamStep([beam for beam, _, _ in kept], [token for _, token, _ in kept])
