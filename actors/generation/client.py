"""What a route may ask of the generation scheduler. `actors/ingress/link.py` implements it over Ray and the mailbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from actors.generation.grammar.constraint import Constraint
from actors.generation.messages import Delta, Description, SchedulerStatistics, Submit
from actors.ids import IngressId, RequestId


class RowDeltas(Protocol):
    """Deltas of a request's rows, in order of arrival. One reader."""

    def __aiter__(self) -> AsyncIterator[Delta]: ...

    def end(self, name: RequestId) -> None:
        """Cancel one of several rows: its answer is complete for its reader. No delta of it comes any more."""
        ...


class GenerationClient(Protocol):
    """One ingress replica's way to the scheduler. Every method may raise `EngineUnavailable`."""

    @property
    def ingress(self) -> IngressId:
        """The name to put into `Submit.ingress`."""
        ...

    @property
    def description(self) -> Description:
        """What is served, also while the scheduler restarts. Raises `EngineUnavailable` before its first start."""
        ...

    def generate(self, request: Submit) -> AbstractAsyncContextManager[RowDeltas]:
        """Submit a request and read the deltas of its rows; with several choices they come mixed.

        Entering submits (and may raise `QueueFull`, `ShuttingDown`). The iterator ends after the last row's delta that
        carries `finish`; a failed row raises its error instead of yielding it, a dead scheduler raises
        `EngineUnavailable`. Leaving the context before the end, by return, exception or task cancellation,
        cancels the row; the scheduler frees it within two steps.
        """
        ...

    async def compile(self, constraint: Constraint) -> str | None:
        """Get a constraint ready. Returns why it cannot be enforced, or None. Cancelling abandons the question."""
        ...

    async def statistics(self) -> SchedulerStatistics:
        """The scheduler's state now."""
        ...
