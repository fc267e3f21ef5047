"""What a model's text consists of once its markup is understood. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the user."""

    text: str
    """Not empty."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of a thinking block."""

    text: str
    """Not empty."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One complete call of a function that the request offered."""

    name: str
    """Name of the function."""
    arguments: str
    """JSON text of an object."""


Part = Content | Reasoning | ToolCall


def joined(parts: Sequence[Part]) -> list[Part]:
    """The same parts, with neighbouring pieces of a kind made one where they are text."""
    if len(parts) < 2:
        return list(parts)
    runs: list[Part] = []
    for kind, run in groupby(parts, type):
        if kind is ToolCall:
            runs += run
        else:
            text = "".join(part.text for part in run if not isinstance(part, ToolCall))
            runs.append(Content(text) if kind is Content else Reasoning(text))
    return runs


class Splitter(Protocol):
    """Text in, parts out. However the text is cut into pieces, the parts join to the same whole."""

    @property
    def buffering(self) -> bool:
        """Whether markup is being held back until it is complete."""
        ...

    @property
    def done(self) -> bool:
        """Whether the only call that is allowed has come, so that the answer may end here."""
        ...

    def feed(self, text: str) -> list[Part]:
        """Take more text and return the parts that are certain now."""
        ...

    def flush(self) -> list[Part]:
        """The text has ended, by itself or cut off: return what was held back, as what it turned out to be."""
        ...
