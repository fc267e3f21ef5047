"""The scheduler's side of the mailbox: one socket an ingress replica, written to by the engine thread itself.

The engine sends a step's events with one non-blocking `send`; no hop over the event loop, whose thread would
first have to win the interpreter lock. What the socket does not take stays in the backlog, later steps are
appended to it, and the event loop sends it on when the socket is writable again.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from actors.generation.frames import FrameReader, ProtocolError, decode, encode
from actors.generation.messages import Cancel, Hello, StepEvents
from actors.ids import IngressId

log = logging.getLogger("troupe.generation.mailbox")

BACKLOG_LIMIT = 64 * 2**20
"""Bytes an ingress replica may be behind before it is taken for dead."""

HELLO_TIMEOUT_S = 5.0


class Connection:
    """One connected ingress replica. `post` may be called from any thread; the rest belongs to the event loop."""

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self._sock = sock
        self._loop = loop
        self._lock = threading.Lock()
        self._backlog = bytearray()
        self._broken = False

    @property
    def backlog_bytes(self) -> int:
        return len(self._backlog)

    def post(self, events: StepEvents) -> None:
        """Send now what the socket takes, the rest when it can. Never blocks, never raises."""
        frame = encode(events)
        with self._lock:
            if self._broken:
                return
            if self._backlog:
                self._backlog += frame
            else:
                sent = self._send(frame)
                if sent < len(frame):
                    self._backlog += frame[sent:]
                    self._loop.call_soon_threadsafe(self._await_writable)
            if len(self._backlog) > BACKLOG_LIMIT:
                log.error("an ingress replica is %d bytes behind; closing its mailbox", len(self._backlog))
                self._break()

    def close(self) -> None:
        """Event loop only. May be repeated."""
        with self._lock:
            self._broken = True
            self._backlog.clear()
        if self._sock.fileno() >= 0:
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()

    def _send(self, data: bytes | bytearray) -> int:
        try:
            return self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self._break()
            return len(data)

    def _break(self) -> None:
        # The reader on the event loop sees the end of the stream and cleans up.
        self._broken = True
        self._backlog.clear()
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("mailbox socket was already down: %s", error)

    def _await_writable(self) -> None:
        with self._lock:
            if self._broken or not self._backlog:
                return
        self._loop.add_writer(self._sock.fileno(), self._flush)

    def _flush(self) -> None:
        with self._lock:
            if not self._broken:
                del self._backlog[: self._send(self._backlog)]
            if self._broken or not self._backlog:
                self._loop.remove_writer(self._sock.fileno())


class Mailbox:
    """All connected ingress replicas."""

    def __init__(self, on_cancel: Callable[[Cancel], None], on_gone: Callable[[IngressId], None]) -> None:
        self.secret = secrets.token_hex(16)
        self.host = ""
        self.port = 0
        self._on_cancel = on_cancel
        self._on_gone = on_gone
        self._connections: dict[IngressId, Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None

    async def open(self, host: str) -> None:
        """Listen on a free port of `host`."""
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listener.bind((host, 0))
        listener.listen(64)
        listener.setblocking(False)
        self._listener = listener
        self.host, self.port = host, listener.getsockname()[1]
        self._spawn(self._accept(listener))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def post(self, ingress: IngressId, events: StepEvents) -> None:
        """Any thread. Events of an ingress that has gone are nobody's."""
        connection = self._connections.get(ingress)
        if connection is not None:
            connection.post(events)

    def post_all(self, events: StepEvents) -> None:
        """Event loop only."""
        for connection in self._connections.values():
            connection.post(events)

    def knows(self, ingress: IngressId) -> bool:
        return ingress in self._connections

    @property
    def replicas(self) -> int:
        return len(self._connections)

    @property
    def backlog_bytes(self) -> int:
        return sum(connection.backlog_bytes for connection in list(self._connections.values()))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sock, _ = await loop.sock_accept(listener)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._spawn(self._serve(sock))

    async def _serve(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = FrameReader()
        try:
            hello, rest = await asyncio.wait_for(self._hello(sock, reader), HELLO_TIMEOUT_S)
        except (ProtocolError, OSError, TimeoutError) as error:
            log.warning("a mailbox connection was refused: %s", error)
            sock.close()
            return
        connection = Connection(sock, loop)
        self._connections[hello.ingress] = connection
        connection.post(StepEvents(0, ()))
        log.info("mailbox of %s connected", hello.ingress)
        try:
            self._cancels(rest)
            while data := await loop.sock_recv(sock, 65536):
                self._cancels(list(reader.feed(data)))
        except (ProtocolError, OSError) as error:
            log.warning("mailbox of %s failed: %s", hello.ingress, error)
        finally:
            self._connections.pop(hello.ingress, None)
            connection.close()
            self._on_gone(hello.ingress)
            log.info("mailbox of %s closed", hello.ingress)

    async def _hello(self, sock: socket.socket, reader: FrameReader) -> tuple[Hello, list[bytes]]:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(sock, 65536):
            frames = list(reader.feed(data))
            if frames:
                hello = decode(Hello, frames[0])
                if not hmac.compare_digest(hello.secret, self.secret):
                    raise ProtocolError("it does not know the secret")
                return hello, frames[1:]
        raise ProtocolError("it closed without saying hello")

    def _cancels(self, frames: list[bytes]) -> None:
        for frame in frames:
            self._on_cancel(decode(Cancel, frame))
