"""What a protocol does with an answer: its JSON, whole or in event frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from routes.parts import Part, ToolCall


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request took, in tokens."""

    prompt_tokens: int
    """Of the prompt, those from the cache included."""
    cached_tokens: int
    """Of these, taken from the prompt cache."""
    completion_tokens: int
    """Of all choices together."""
    reasoning_tokens: int
    """Of these, spent in thinking blocks."""
    lane: str
    """`batched` or `serial`."""

    def counted(self) -> dict[str, object]:
        """The `usage` object of chat and text completions."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
            "lane": self.lane,
        }


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
    parts: tuple[Part, ...] = ()
    """The same answer, part by part in the order in which the model said it."""
    stop: str | None = None
    """The stop string that ended it, if one did."""


class Shape(Protocol):
    """One protocol's JSON for one response. All but `whole` are whole event frames."""

    @property
    def heartbeat(self) -> bytes:
        """Sent into the silence before an answer begins, and while a tool call is held back."""
        ...

    @property
    def end(self) -> bytes:
        """Comes after everything else of a stream that did not fail; may be empty."""
        ...

    def opening(self, index: int) -> bytes:
        """What comes before anything else of a choice; may be empty."""
        ...

    def prompted(self, usage: Usage) -> bytes:
        """The prompt has been read, so what came from the cache is known: once, before any parts; may be empty."""
        ...

    def pieces(self, index: int, parts: Sequence[Part]) -> bytes:
        """Parts of a choice, at least one."""
        ...

    def closing(self, index: int, finish: str, usage: Usage | None, stop: str | None = None) -> bytes:
        """The end of a choice; with the usage if it is the last one. `stop`: the stop string that ended it, if any."""
        ...

    def failing(self, error: Exception) -> bytes:
        """The end of a stream that failed after it had begun."""
        ...

    def whole(self, choices: Sequence[Choice], usage: Usage) -> bytes:
        """The body of a response that is not streamed."""
        ...


ShapeMaker = Callable[[str, str, int], Shape]
"""From response id, model id and creation time in seconds since the epoch."""
