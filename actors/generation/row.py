"""One request in the engine, as plain state."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from actors.generation.messages import Submit
from actors.ids import EntryId


@dataclass(slots=True, eq=False)
class Row:
    """A row. The engine thread owns everything but `cancelled`, which the event loop may set at any time."""

    request: Submit
    """What was asked."""
    tokens: list[int]
    """Prompt and what was generated so far."""
    entry: EntryId | None = None
    """Stored prefix to start from."""
    entry_length: int = 0
    """Tokens of it to use."""
    caches: list[Any] | None = None
    """State of the first `computed` tokens while the row is not in the batch; the batch holds it after that."""
    computed: int = 0
    """Tokens whose state the caches hold."""
    generated: int = 0
    """Tokens generated and read."""
    draws: int = 0
    """Tokens sampled, read or not."""
    cached: int = 0
    """Prompt tokens that came from the prompt cache."""
    started: bool = False
    """Whether the first delta was sent."""
    cancelled: bool = False
    """Set by the event loop; the engine ends the row at its next step."""
    suspect: bool = False
    """The row was in a pass that failed; it goes on alone until it has shown that it can."""
    accepted_at: float = field(default_factory=time.monotonic)
    """For the log and the statistics."""

    @property
    def remaining(self) -> int:
        """Tokens to compute before the row can decode: all but the last one."""
        return len(self.tokens) - 1 - self.computed

    def at_limit(self, ahead: int = 0) -> bool:
        """Whether `ahead` more tokens reach max_tokens."""
        limit = self.request.max_tokens
        return limit is not None and self.generated + ahead >= limit
