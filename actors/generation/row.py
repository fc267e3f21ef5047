"""One request in the engine, as plain state."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from actors.generation.messages import Mark, Submit
from actors.ids import EntryId


class Matcher(Protocol):
    """State of one row's grammar; `grammar/matcher.py` has the real one. Engine thread only."""

    @property
    def finished(self) -> bool:
        """Complete, and nothing may follow."""
        ...

    @property
    def problem(self) -> str | None:
        """Why the row cannot go on."""
        ...

    @property
    def binding(self) -> bool:
        """Whether it has a say about one of the next two tokens; where not, `fill` need not be asked."""
        ...

    def accept(self, token: int) -> bool:
        """Move on by one token. False when the row cannot go on, see `problem`."""
        ...

    def fill(self, row: np.ndarray) -> None:
        """Write the tokens that may come next into a row of mask words (int32, one bit a token)."""
        ...


@dataclass(slots=True, eq=False)
class Choices:
    """The answers to one request: rows with one prompt, computed once. Engine thread only."""

    leader: Row | None = None
    """The row that computes the prompt; None when that is done, or not begun."""
    prompt: list[Any] | None = None
    """Exact caches of the prompt once it is computed, until the last row has taken its share."""
    length: int = 0
    """Tokens they hold."""
    states: dict[int, list[Any]] = field(default_factory=dict)
    """What was kept within the prompt."""
    parked: list[Row] = field(default_factory=list)
    """Rows that wait for the leader."""
    unstarted: int = 0
    """Rows that have not taken their share yet."""


@dataclass(slots=True)
class Checkpoint:
    """How far a row's answer is kept for a restart. Engine thread only, but for `key`."""

    key: bytes
    """Of `checkpoints.key_of`."""
    every: int
    """Generated tokens between two."""
    entry: EntryId | None = None
    """Caches that are stored already; the note follows with the next token, which they do not hold."""


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
    branch: int = 0
    """Tokens at the start of the prompt that another known prompt has too."""
    stops: list[int] = field(default_factory=list)
    """Lengths at which its state is still to be kept, ascending."""
    states: dict[int, list[Any]] = field(default_factory=dict)
    """What was kept so far, by length (`kv.states`)."""
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
    matcher: Matcher | None = None
    """State of the row's grammar."""
    choices: Choices | None = None
    """What the row shares with the other answers to the same request."""
    fault: Exception | None = None
    """What went wrong with this row alone while its token was read; it ends with it."""
    checkpoint: Checkpoint | None = None
    """Whether and how the answer survives a crash."""
    replay: list[int] = field(default_factory=list)
    """Tokens that were generated in another life and are still to be sent."""
    done: bool = False
    """The answer is complete; neither cancelled nor failed."""
    marks: list[Mark] | None = None
    """Phases so far; None when the row is not traced."""
    lookup_at: float = 0.0
    """When the prompt cache was asked, on the monotonic clock."""
    admitted_at: float = 0.0
    """When the row got its seat."""
    seated_at: float = 0.0
    """When it joined the batch."""
    accepted_at: float = field(default_factory=time.monotonic)
    """For the log and the statistics."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.tokens) - self.generated

    @property
    def complete(self) -> bool:
        """Whether the row's grammar is satisfied and allows nothing more."""
        return self.matcher is not None and self.matcher.finished

    @property
    def remaining(self) -> int:
        """Tokens to compute before the row can decode: all but the last one."""
        return len(self.tokens) - 1 - self.computed

    @property
    def stop(self) -> int | None:
        """Tokens to compute until the next length at which the state is to be kept."""
        return self.stops[0] - self.computed if self.stops else None

    def opens_with(self, tokens: int) -> bool:
        """Whether its first token may be computed with the next `tokens`: they are all, and nothing is done in between.

        Other answers may begin at the end of a prompt, and a row that is traced is measured in parts.
        """
        return tokens == self.remaining and self.choices is None and self.marks is None

    def at_limit(self, ahead: int = 0) -> bool:
        """Whether `ahead` more tokens reach max_tokens."""
        limit = self.request.max_tokens
        return limit is not None and self.generated + ahead >= limit

    def finish(self, token: int, ends: frozenset[int]) -> str | None:
        """Why the row ends with its newest token; None when it does not. `ends` are the model's end tokens."""
        if token in ends:
            return "stop"
        if self.complete:
            return "complete"
        return "length" if self.at_limit() else None
