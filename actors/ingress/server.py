"""The HTTP server of an ingress replica: uvicorn on the replica's own event loop.

Serve's proxy would add 3 ms and half a millisecond of CPU to every streamed token; a listening socket of our own adds
nothing, and a fixed port survives restarts. Several replicas of one machine share the port.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from actors.errors import StartError
from actors.ingress.protocol import BoundedConfig, HeadLimits, Protocol

BACKLOG = 2048
"""Connections the kernel keeps for us while we are busy; a burst must not be refused."""


class _Server(uvicorn.Server):
    """Signals belong to the process that hosts us, and nothing has to be looked at ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._over = asyncio.Event()

    def end(self) -> None:
        """Begin to shut down."""
        self.should_exit = True
        self._over.set()

    async def main_loop(self) -> None:
        """Return when it ends."""
        await self.on_tick(0)
        await self._over.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int, shared: bool) -> socket.socket:
    """A bound socket. It refuses connections until the server starts: nobody waits for a model that loads.

    Args:
        host: address or name.
        port: TCP port.
        shared: whether other replicas on this machine listen on the same port; the kernel then spreads connections
            on Linux, while on macOS the newest listener gets them.

    Raises:
        StartError: the address is not ours or is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared and hasattr(socket, "SO_REUSEPORT"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(address)
        sock.setblocking(False)
    except OSError as error:
        raise StartError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return sock


class HttpServer:
    """Serves an ASGI application until told to stop.

    Args:
        app: the application.
        sock: a bound socket; closed at the end.
        grace_s: how long open requests may go on when the server stops.
        limits: bounds on what comes before a body.
    """

    def __init__(self, app: ASGIApp, sock: socket.socket, grace_s: float, limits: HeadLimits | None = None) -> None:
        limits = limits or HeadLimits()
        config = BoundedConfig(
            app,
            http=Protocol,
            proxy_headers=False,
            lifespan="off",
            backlog=BACKLOG,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=max(1, round(grace_s)),
            ws="websockets-sansio",
            ws_max_size=limits.message_size,
            ws_per_message_deflate=False,
        )
        config.limits = limits
        self._server = _Server(config)
        self._sock = sock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._server.serve(sockets=[self._sock]))

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    async def stop(self) -> None:
        """Accept nothing more and return when open requests are answered or the grace is over."""
        self._server.end()
        if self._task is not None:
            await self._task
