"""Runs an engine without Ray: a lease that is always free, and everything it says kept in lists."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from actors.generation.actor import rows_of
from actors.generation.engine import Engine
from actors.generation.events import Outgoing
from actors.generation.loading import load
from actors.generation.messages import Failure, Sampling, Score, StepEvents, Submit
from actors.generation.policy import PrefillRate
from actors.generation.row import Matcher, Row
from actors.generation.shelf import Stored
from actors.ids import EntryId, IngressId, RequestId

PATIENCE_S = 60.0


class FreeLease:
    """Nobody else wants to run MLX."""

    must_yield = False

    def hold(self) -> None:
        return None

    def give_way(self) -> None:
        return None

    def idle(self) -> None:
        return None


@dataclass
class Outcome:
    """What a row came to."""

    row: Row
    tokens: list[int] = field(default_factory=list)
    finish: str | None = None
    failure: Failure | None = None
    cached: int | None = None
    scores: list[Score] = field(default_factory=list)


@dataclass(frozen=True)
class StoredPrefix:
    entry: EntryId
    tokens: list[int]
    trimmable: bool
    boundaries: tuple[int, ...] = ()


class FixedRate(PrefillRate):
    """A budget that does not depend on how fast this machine is."""

    def __init__(self, tokens: int) -> None:
        super().__init__(0.25, 2048)
        self._tokens = tokens

    def budget(self, decoding: int, waiting: int = 1) -> int:
        return self._tokens


class Rig:
    """An engine and what it said. `submit` any number of rows, then `wait`."""

    def __init__(
        self, path: Path, max_rows: int = 8, budget: int = 64, store: int | None = 4, boundary: int = 0
    ) -> None:
        self._numbers = count()
        self._outcomes: dict[RequestId, Outcome] = {}
        self._changed = threading.Condition()
        self._ended: set[RequestId] = set()
        self.prefixes: list[StoredPrefix] = []
        self.steps: list[StepEvents] = []
        self.after_post: Callable[[], None] = lambda: None
        """Called in the engine's thread between two steps, after a step's events."""
        self.engine = Engine(
            load=lambda: load(path, "float32", trust_model_code=True),
            lease=FreeLease(),
            outgoing=Outgoing(self._post),
            port=self,
            end_tokens=frozenset([256]),
            max_rows=max_rows,
            rate=FixedRate(budget),
            store=store,
            boundary=boundary,
        )
        self.loaded = self.engine.start().result()

    def ended(self, row: Row) -> None:
        with self._changed:
            self._ended.add(row.request.request_id)
            self._changed.notify_all()

    def stored(self, entry: EntryId, row: Row, stored: Stored) -> None:
        self.prefixes.append(StoredPrefix(entry, row.tokens[: stored.length], stored.trimmable, stored.boundaries))

    def checkpointed(self, entry: EntryId, row: Row, generated: tuple[int, ...]) -> None:
        raise AssertionError("no row of this rig keeps checkpoints")

    def _post(self, ingress: IngressId, events: StepEvents) -> None:
        with self._changed:
            self.steps.append(events)
            for delta in events.deltas:
                outcome = self._outcomes[delta.request_id]
                outcome.tokens += delta.tokens
                outcome.scores += delta.scores
                outcome.finish = delta.finish or outcome.finish
                outcome.failure = delta.failure or outcome.failure
                outcome.cached = outcome.cached if delta.cached_tokens is None else delta.cached_tokens
            self._changed.notify_all()
        self.after_post()

    def submit(
        self,
        prompt: Sequence[int],
        max_tokens: int | None = 24,
        sampling: Sampling | None = None,
        entry: StoredPrefix | None = None,
        length: int = 0,
        top_logprobs: int | None = None,
        matcher: Matcher | None = None,
        boundaries: tuple[int, ...] = (),
        branch: int = 0,
    ) -> Outcome:
        [outcome] = self.prepare(prompt, max_tokens, sampling, entry, length, top_logprobs, 1, boundaries)
        outcome.row.branch = branch
        outcome.row.matcher = matcher
        self.engine.inbox.put_row(outcome.row)
        return outcome

    def submit_choices(
        self,
        prompt: Sequence[int],
        choices: int,
        max_tokens: int | None = 24,
        sampling: Sampling | None = None,
        entry: StoredPrefix | None = None,
        length: int = 0,
        top_logprobs: int | None = None,
    ) -> list[Outcome]:
        """Several answers to one prompt, as one request asks for them."""
        outcomes = self.prepare(prompt, max_tokens, sampling, entry, length, top_logprobs, choices)
        for outcome in outcomes:
            self.engine.inbox.put_row(outcome.row)
        return outcomes

    def prepare(
        self,
        prompt: Sequence[int],
        max_tokens: int | None,
        sampling: Sampling | None,
        entry: StoredPrefix | None,
        length: int,
        top_logprobs: int | None,
        choices: int,
        boundaries: tuple[int, ...] = (),
    ) -> list[Outcome]:
        name = RequestId(f"row-{next(self._numbers)}")
        request = Submit(
            name,
            IngressId("test"),
            b"",
            max_tokens,
            sampling or Sampling(),
            top_logprobs=top_logprobs,
            choices=choices,
            boundaries=boundaries,
        )
        outcomes = []
        for row in rows_of(request, list(prompt)):
            row.entry, row.entry_length = entry.entry if entry else None, length
            outcome = self._outcomes[row.request.request_id] = Outcome(row)
            outcomes.append(outcome)
        return outcomes

    def wait(self, *outcomes: Outcome) -> None:
        """Until the rows have ended."""
        names = {outcome.row.request.request_id for outcome in outcomes}
        with self._changed:
            assert self._changed.wait_for(lambda: names <= self._ended, PATIENCE_S), "the rows did not end"

    def wait_for_tokens(self, outcome: Outcome, tokens: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(outcome.tokens) >= tokens, PATIENCE_S)

    def cancel(self, outcome: Outcome) -> None:
        outcome.row.cancelled = True
        self.engine.inbox.wake()

    def run(self, prompt: Sequence[int], **options: object) -> list[int]:
        outcome = self.submit(prompt, **options)  # type: ignore[arg-type]
        self.wait(outcome)
        assert outcome.failure is None, outcome.failure
        return outcome.tokens


@contextmanager
def rig(path: Path, **options: object) -> Iterator[Rig]:
    running = Rig(path, **options)  # type: ignore[arg-type]
    try:
        yield running
    finally:
        running.engine.stop()
        running.engine.join()
