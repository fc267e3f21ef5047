"""The door of one ingress replica: how many requests are inside, and whether more may come in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from actors.errors import ShuttingDown


@dataclass(frozen=True, slots=True)
class GateStatistics:
    """Generation requests of one ingress replica."""

    open_requests: int
    """Inside now, in whatever phase."""
    streams: int
    """Of these, server-sent event streams that have begun."""
    admitted: int
    """Let in since start."""
    gone: int
    """Since start, ended because their clients left."""
    draining: bool
    """Whether new ones are refused."""


class Gate:
    """Counts generation requests; once closed it refuses new ones."""

    def __init__(self) -> None:
        self._open = 0
        self._streams = 0
        self._admitted = 0
        self._gone = 0
        self._draining = False

    @property
    def draining(self) -> bool:
        return self._draining

    def close(self) -> None:
        """Refuse new requests from now on; those inside go on. May be repeated."""
        self._draining = True

    @contextmanager
    def pass_through(self) -> Iterator[None]:
        """Be inside for the length of the block.

        Raises:
            ShuttingDown: the gate is closed.
        """
        if self._draining:
            raise ShuttingDown("the server is shutting down")
        self._open += 1
        self._admitted += 1
        try:
            yield
        finally:
            self._open -= 1

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Count as a stream for the length of the block."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    def count_gone(self) -> None:
        """A client left before its answer was complete."""
        self._gone += 1

    def statistics(self) -> GateStatistics:
        return GateStatistics(self._open, self._streams, self._admitted, self._gone, self._draining)
