"""Decode rates that were measured, by model. They count for more than any estimate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.library.messages import DecodeRate

KEPT = 64
"""Models that are remembered."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One rate."""

    tokens_per_s: float
    """Of one request alone."""
    at: float
    """Seconds since the epoch."""


class Rates:
    """The newest rate of each model. Pure.

    Args:
        now: seconds since the epoch.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._rates: dict[str, Measured] = {}

    def note(self, rate: DecodeRate) -> None:
        """Remember a rate; the models that were measured longest ago are forgotten."""
        self._rates.pop(rate.fingerprint, None)
        self._rates[rate.fingerprint] = Measured(rate.tokens_per_s, self._now())
        while len(self._rates) > KEPT:
            del self._rates[next(iter(self._rates))]

    def of(self, fingerprint: str) -> Measured | None:
        """The newest rate of a model."""
        return self._rates.get(fingerprint)

    def to_plain(self) -> dict[str, list[float]]:
        """What `restore` takes."""
        return {name: [rate.tokens_per_s, rate.at] for name, rate in self._rates.items()}

    def restore(self, plain: Any) -> None:
        """Take in what an earlier life knew; anything else is left out."""
        for name, value in plain.items() if isinstance(plain, dict) else ():
            if isinstance(value, list) and len(value) == 2 and all(_positive(number) for number in value):
                self._rates.setdefault(name, Measured(float(value[0]), float(value[1])))


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
