"""A scheduler for the route tests: it describes itself, and its rows do what a script says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from actors.errors import CacheUnavailable, EngineUnavailable
from actors.generation.grammar.constraint import Constraint
from actors.generation.messages import (
    Delta,
    Description,
    Flushed,
    SchedulerStatistics,
    Score,
    SpillingStatistics,
    Submit,
    choice_id,
)
from actors.ids import Incarnation, IngressId, RequestId

Step = Delta | Exception | asyncio.Event
Script = Callable[[Submit], Iterable[Step]]


def description(**changes: Any) -> Description:
    """A scheduler that batches eight rows, without a context cap."""
    values: dict[str, Any] = {
        "incarnation": Incarnation("one"),
        "model_id": "org/tiny",
        "model_path": "/models/tiny",
        "mailbox_host": "127.0.0.1",
        "mailbox_port": 1,
        "mailbox_secret": "secret",
        "vocabulary": 258,
        "context_limit": None,
        "max_rows": 8,
        "batchable": True,
        "trimmable": True,
        "weight_bytes": 1000,
        "dtype": "float32",
        "device": "cpu",
    }
    return Description(**{**values, **changes})


def score(token: int, top: int) -> Score:
    """What the scripted scheduler says of a token: it was the likeliest one, the next ids come after it."""
    ranked = tuple((token + place, -(token + 1000.0 * place) / 1024) for place in range(top))
    return Score(-token / 1024, ranked)


class ScriptedDeltas:
    """Deltas of a script, and a note of the rows that were ended early, of which no more comes."""

    def __init__(self, deltas: AsyncIterator[Delta], ended: list[RequestId]) -> None:
        self._deltas = deltas
        self._ended = ended

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self._going()

    async def _going(self) -> AsyncIterator[Delta]:
        async for delta in self._deltas:
            if delta.request_id not in self._ended:
                yield delta

    def end(self, name: RequestId) -> None:
        self._ended.append(name)


class ScriptedGeneration:
    """A `GenerationClient` whose rows do what a script says: give a delta, raise, or wait for an event."""

    ingress = IngressId("ingress-test")

    def __init__(self) -> None:
        self.described: Description | None = description()
        self.refusal: Exception | None = None
        self.script: Script = lambda submit: ()
        self.submitted: list[Submit] = []
        self.cancelled: list[RequestId] = []
        self.ended: list[RequestId] = []
        """Rows of several that the reader ended."""
        self.compiled: list[Constraint] = []
        self.unenforceable: str | None = None
        """Why no constraint can be enforced, if none can."""
        self.entered = asyncio.Event()
        self.down = False
        self.closed_sessions: list[str] = []
        """What the prompt-cache manager was told."""
        self.spilling: SpillingStatistics | None = None
        """The scheduler's side of the SSD tier."""
        self.flushes: list[float] = []
        """How many seconds each flush was given."""
        self.flushed = Flushed(attached=False)
        """What a flush comes to."""

    async def flush(self, timeout_s: float) -> Flushed:
        if self.down:
            raise EngineUnavailable("the generation scheduler does not answer")
        self.flushes.append(timeout_s)
        return self.flushed

    async def close_session(self, session: str) -> None:
        if self.down:
            raise CacheUnavailable("the prompt-cache manager does not answer; try again")
        self.closed_sessions.append(session)

    @property
    def description(self) -> Description:
        if self.described is None:
            raise EngineUnavailable("the scheduler is restarting")
        return self.described

    @asynccontextmanager
    async def generate(self, request: Submit) -> AsyncIterator[ScriptedDeltas]:
        if self.refusal is not None:
            raise self.refusal
        self.submitted.append(request)
        self.entered.set()
        going = {choice_id(request.request_id, index) for index in range(request.choices)}

        async def read() -> AsyncIterator[Delta]:
            for step in self.script(request):
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, Exception):
                    going.clear()
                    raise step
                else:
                    if step.finish is not None:
                        going.discard(step.request_id)
                    yield step

        try:
            yield ScriptedDeltas(read(), self.ended)
        finally:
            if going.difference(self.ended):
                self.cancelled.append(request.request_id)

    async def compile(self, constraint: Constraint) -> str | None:
        self.compiled.append(constraint)
        return self.unenforceable

    async def statistics(self) -> SchedulerStatistics:
        if self.down:
            raise EngineUnavailable("the scheduler is restarting")
        numbers: dict[str, Any] = dict.fromkeys(SchedulerStatistics.__dataclass_fields__, 0)
        numbers["spilling"] = self.spilling
        numbers.update(active_rows=2, waiting_rows=3, prefilling_rows=1, submitted_rows=9, kv_bytes=77)
        return SchedulerStatistics(**numbers)
