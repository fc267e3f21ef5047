"""The record of one traced request: when each phase of it took place, from the body to the last write."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from actors.generation.messages import Mark
from routes.wire import json_bytes

PREFIX = "[p2r] "
VERSION = 1


class Trace:
    """Collects phases on the machine's monotonic clock, which the scheduler's marks are on too.

    Args:
        trace_id: what the client calls the request; empty takes the request id.
        request_id: id of the response.
        route: path.
    """

    def __init__(self, trace_id: str, request_id: str, route: str) -> None:
        self._about = {"traceId": trace_id or request_id, "requestId": request_id, "route": route}
        self._started = time.monotonic()
        self._events: list[dict[str, object]] = []
        self._attributes: dict[str, object] = {}
        self._written = False

    def add(self, phase: str, started: float, duration: float, attributes: Mapping[str, int] | None = None) -> None:
        """A phase; `started` on the monotonic clock, both in seconds."""
        event: dict[str, object] = {
            "phase": phase,
            "startMs": round((started - self._started) * 1000, 3),
            "durationMs": round(duration * 1000, 3),
        }
        self._events.append({**event, "attributes": dict(attributes)} if attributes else event)

    def take(self, marks: tuple[Mark, ...]) -> None:
        """What the scheduler has noted."""
        for mark in marks:
            self.add(mark.phase, mark.started, mark.seconds, mark.attributes)

    @contextmanager
    def span(self, phase: str, stage: str | None = None) -> Iterator[None]:
        """The block is a phase. An error in it is said to belong to `stage`."""
        started = time.monotonic()
        try:
            yield
        except Exception:
            if stage is not None:
                self._attributes["stage"] = stage
            raise
        finally:
            self.add(phase, started, time.monotonic() - started)

    def written(self, final: bool) -> None:
        """Bytes of the response have been handed to the socket."""
        if not self._written:
            self._written = True
            self.add("response.first_write", time.monotonic(), 0.0)
        if final:
            self.add("response.final_write", time.monotonic(), 0.0)

    def record(self, outcome: str) -> dict[str, object]:
        """Everything, as it is written."""
        events = sorted(self._events, key=lambda event: event["startMs"])  # type: ignore[arg-type, return-value]
        record: dict[str, object] = {
            "version": VERSION,
            **self._about,
            "clock": "monotonic-ms",
            "outcome": outcome,
            "totalMs": round((time.monotonic() - self._started) * 1000, 3),
            "events": events,
        }
        return {**record, "attributes": self._attributes} if self._attributes else record

    def emit(self, outcome: str) -> None:
        """Write the record to standard error, as one line."""
        sys.stderr.write(PREFIX + json_bytes(self.record(outcome)).decode() + "\n")
        sys.stderr.flush()


@contextmanager
def phase(trace: Trace | None, name: str, stage: str | None = None) -> Iterator[None]:
    """`Trace.span`, or nothing at all when the request is not traced."""
    if trace is None:
        yield
        return
    with trace.span(name, stage):
        yield
