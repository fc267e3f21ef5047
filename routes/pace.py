"""How fast answers really come: the rate of a request that had this replica to itself, told to the library."""

from __future__ import annotations

import asyncio
import logging

from starlette.types import ASGIApp, Receive, Scope, Send

from actors.clock import Clock
from actors.errors import LibraryUnavailable
from actors.library.client import LibraryClient
from actors.library.messages import DecodeRate
from routes.exchange import exchange_of
from routes.gate import Gate

LEAST_TOKENS = 32
"""Of a shorter answer, too much is not decoding."""
PERIOD_S = 60.0
"""Between two reports."""
_log = logging.getLogger("troupe.routes")


class PaceMiddleware:
    """Watches generation requests; never delays or fails one.

    Args:
        app: the application.
        gate: counts the requests inside.
        library: remembers the rates.
        fingerprint: of the served model.
        clock: measures the time between reports.
    """

    def __init__(self, app: ASGIApp, gate: Gate, library: LibraryClient, fingerprint: str, clock: Clock) -> None:
        self._app = app
        self._gate = gate
        self._library = library
        self._fingerprint = fingerprint
        self._clock = clock
        self._next = clock.now()
        self._telling: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whatever the application raises passes through."""
        before = self._gate.statistics()
        await self._app(scope, receive, send)
        if scope["type"] != "http" or before.open_requests or self._clock.now() < self._next:
            return
        rate = self._rate(scope, company=self._gate.statistics().admitted - before.admitted != 1)
        if rate is not None:
            self._next = self._clock.now() + PERIOD_S
            self._telling = asyncio.create_task(self._tell(rate))

    def _rate(self, scope: Scope, *, company: bool) -> float | None:
        """Tokens a second behind the first; None for a request that says nothing of it."""
        exchange = exchange_of(scope)
        tokens, first = exchange.completion_tokens or 0, exchange.first_token_s
        alone = not company and exchange.choices == 1
        if not alone or exchange.status != 200 or exchange.error or first is None or tokens < LEAST_TOKENS:
            return None
        seconds = exchange.elapsed() - first
        return (tokens - 1) / seconds if seconds > 0 else None

    async def _tell(self, rate: float) -> None:
        try:
            await self._library.note_rate(DecodeRate(self._fingerprint, rate))
        except LibraryUnavailable:
            _log.debug("a measured rate is lost: the library does not answer")
