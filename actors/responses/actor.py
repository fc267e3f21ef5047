"""The response store: keeps what `previous_response_id` resumes, apart from the ingress replicas that come and go."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from actors.clock import Clock, MonotonicClock
from actors.ids import RequestId
from actors.responses.messages import Keep, Kept, StoreStatistics, Turn
from actors.responses.store import StoredResponses
from actors.settings import ResponseSettings


class ResponseStore:
    """Holds responses in RAM; they end with it. No method waits for anything, and each may be repeated."""

    def __init__(self, settings: ResponseSettings, clock: Clock | None = None) -> None:
        self._stored = StoredResponses(settings.max_bytes, settings.ttl_s, clock or MonotonicClock())
        self._handling = 0

    async def keep(self, message: Keep) -> Kept:
        """Store a complete response, or say why not."""
        with self._message():
            return self._stored.keep(message)

    async def thread(self, response_id: RequestId) -> tuple[Turn, ...] | None:
        """The conversation that ends with a response, oldest turn first; None if the response is not known."""
        with self._message():
            return self._stored.thread(response_id)

    async def find(self, response_id: RequestId) -> bytes | None:
        """JSON of a response; None if it is not known."""
        with self._message():
            return self._stored.find(response_id)

    async def holding(self, items: tuple[str, ...]) -> tuple[bytes, ...]:
        """JSON of the responses that have these items in their output; what nobody has is passed over."""
        with self._message():
            return self._stored.holding(items)

    async def forget(self, response_id: RequestId) -> bool:
        """Drop a response; whether there was one."""
        with self._message():
            return self._stored.forget(response_id)

    async def statistics(self) -> StoreStatistics:
        """State of the store now."""
        with self._message():
            return self._stored.statistics(self._handling)

    @contextlib.contextmanager
    def _message(self) -> Iterator[None]:
        self._handling += 1
        try:
            yield
        finally:
            self._handling -= 1
