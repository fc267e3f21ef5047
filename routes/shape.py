"""What a protocol does with an answer: its JSON, whole or in event frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from routes.parts import Part, ToolCall


@dataclass(frozen=True, slots=True)
class Choice:
    """One complete answer."""

    content: str
    """Text for the user."""
    reasoning: str
    """Text of thinking blocks."""
    calls: tuple[ToolCall, ...]
    """In order."""
    finish: str
    """`stop`, `length` or `tool_calls`."""
    logprobs: dict[str, list[dict[str, object]]] | None
    """The `logprobs` object, when the request asked for it."""


class Shape(Protocol):
    """One protocol's JSON for one response. `opening`, `pieces` and `closing` are whole event frames."""

    def opening(self, index: int) -> bytes:
        """What comes before anything else of a choice; may be empty."""
        ...

    def pieces(self, index: int, parts: Sequence[Part]) -> bytes:
        """Parts of a choice, at least one."""
        ...

    def closing(self, index: int, finish: str, usage: dict[str, object] | None) -> bytes:
        """The end of a choice; with the usage if it is the last one."""
        ...

    def whole(self, choices: Sequence[Choice], usage: dict[str, object]) -> bytes:
        """The body of a response that is not streamed."""
        ...


ShapeMaker = Callable[[str, str, int], Shape]
"""From response id, model id and creation time in seconds since the epoch."""
