"""An ingress replica's way to the generation scheduler: submits as actor calls, events from the mailbox socket.

The socket is opened as soon as the scheduler describes itself, and again whenever it closed. While it is closed,
new requests wait for a while (a restarted scheduler needs seconds); the rows that ran on the dead one end in
`EngineUnavailable` at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

from actors import errors, ids
from actors.clock import Clock, MonotonicClock
from actors.errors import EngineUnavailable, TroupeError
from actors.generation.frames import FrameReader, ProtocolError, decode, encode
from actors.generation.grammar.constraint import Constraint
from actors.generation.messages import (
    Accepted,
    Cancel,
    Delta,
    Description,
    Failure,
    Hello,
    SchedulerStatistics,
    StepEvents,
    Submit,
    choice_id,
)
from actors.ids import IngressId, RequestId

log = logging.getLogger("troupe.ingress.link")

RETRY_S = 0.2
"""Pause between two attempts to reach a scheduler that is away."""

DESCRIBE_TIMEOUT_S = 5.0

MANY_DEATHS = 4
"""Deaths of the scheduler within `DEATHS_WITHIN_S` after which requests are refused at once instead of waiting for the
next life: they may be what kills it."""

DEATHS_WITHIN_S = 60.0


class RowStream:
    """Deltas of a request's rows, in order. Event loop only; one reader.

    Args:
        names: of the rows.
        cancel: ends one of them.
    """

    def __init__(self, names: Sequence[RequestId], cancel: Callable[[RequestId], None]) -> None:
        self._running = set(names)
        self._cancel = cancel
        self._deltas: deque[Delta] = deque()
        self._error: TroupeError | None = None
        self._news: asyncio.Future[None] | None = None
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.finished = False

    def feed(self, delta: Delta) -> None:
        self._deltas.append(delta)
        self._wake()

    def fail(self, error: TroupeError) -> None:
        """End the stream with an error once its deltas are read."""
        self._error = error
        if not self.broken.done():
            self.broken.set_result(None)
        self._wake()

    def raise_if_broken(self) -> None:
        if self._error is not None:
            raise self._error

    def end(self, name: RequestId) -> None:
        if name in self._running:
            self._cancel(name)
            self._leave(name)

    def _leave(self, name: RequestId) -> None:
        self._running.discard(name)
        self.finished = not self._running

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def __aiter__(self) -> RowStream:
        return self

    async def __anext__(self) -> Delta:
        if self.finished:
            raise StopAsyncIteration
        while not self._deltas:
            self.raise_if_broken()
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        delta = self._deltas.popleft()
        if delta.finish is not None:
            self._leave(delta.request_id)
            if delta.failure is not None:
                raise errors.by_name(delta.failure.error, delta.failure.message)
        return delta


class SchedulerLink(asyncio.Protocol):
    """Implements `GenerationClient`. Event loop only.

    Args:
        scheduler: handle of the generation scheduler's deployment.
        on_draining: called when the scheduler says that it takes no new rows.
        patience_s: how long a request waits for a scheduler that is away before it is refused.
        clock: tells when the scheduler died.
    """

    def __init__(
        self,
        scheduler: Any,
        on_draining: Callable[[], None],
        patience_s: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        self.ingress: IngressId = ids.ingress_id()
        self._scheduler = scheduler
        self._on_draining = on_draining
        self._patience_s = patience_s
        self._clock = clock or MonotonicClock()
        self._deaths: deque[float] = deque(maxlen=MANY_DEATHS)
        self._streams: dict[RequestId, RowStream] = {}
        self._description: Description | None = None
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        # Set by the first frame: the scheduler's welcome.
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._late: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Keep a mailbox open from now on; returns when the first one is. Cancelling gives up."""
        self._keeper = asyncio.ensure_future(self._keep())
        await self._up.wait()

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
        if self._transport is not None:
            self._transport.close()

    @property
    def connected(self) -> bool:
        return self._up.is_set()

    @property
    def description(self) -> Description:
        if self._description is None:
            raise EngineUnavailable("the generation scheduler has not started yet")
        return self._description

    async def statistics(self) -> SchedulerStatistics:
        if not self.connected:
            raise EngineUnavailable("the generation scheduler is restarting")
        try:
            return await asyncio.wait_for(_result(self._scheduler.statistics.remote()), DESCRIBE_TIMEOUT_S)
        except TroupeError:
            raise
        except Exception as error:
            raise EngineUnavailable("the generation scheduler does not answer") from error

    async def compile(self, constraint: Constraint) -> str | None:
        await self._wait_until_up()
        try:
            return await _result(self._scheduler.compile.remote(constraint))
        except Exception as error:
            raise EngineUnavailable("the generation scheduler does not answer") from error

    @contextlib.asynccontextmanager
    async def generate(self, request: Submit) -> AsyncIterator[RowStream]:
        await self._wait_until_up()
        names = [choice_id(request.request_id, index) for index in range(request.choices)]
        stream = RowStream(names, lambda name: self._send(Cancel(name, "stop")))
        self._streams.update(dict.fromkeys(names, stream))
        submitting = asyncio.ensure_future(self._submit(request))
        try:
            await asyncio.wait({submitting, stream.broken}, return_when=asyncio.FIRST_COMPLETED)
            if submitting.done():
                submitting.result()
            stream.raise_if_broken()
            yield stream
        finally:
            for name in names:
                self._streams.pop(name, None)
            if not stream.finished:
                self._cancel_after(submitting, [Cancel(name, "disconnect") for name in names])

    async def _submit(self, request: Submit) -> None:
        try:
            answer: Accepted | Failure = await _result(self._scheduler.submit.remote(request))
        except Exception as error:
            raise EngineUnavailable("the generation scheduler does not answer") from error
        if isinstance(answer, Failure):
            raise errors.by_name(answer.error, answer.message)

    def _cancel_after(self, submitting: asyncio.Task[None], messages: Sequence[Cancel]) -> None:
        """Cancel once the submit has been answered: a cancel must not overtake it."""

        def cancel(task: asyncio.Task[None]) -> None:
            self._late.discard(task)
            accepted = not task.cancelled() and task.exception() is None
            if accepted:
                self._send(*messages)

        self._late.add(submitting)
        submitting.add_done_callback(cancel)

    def _send(self, *messages: Cancel) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(encode(message) for message in messages))

    async def _wait_until_up(self) -> None:
        if self._up.is_set():
            return
        if self._dies_again_and_again():
            raise EngineUnavailable(
                f"the generation scheduler died {MANY_DEATHS} times within {DEATHS_WITHIN_S:g} s; its log says why"
            )
        try:
            await asyncio.wait_for(self._up.wait(), self._patience_s)
        except TimeoutError:
            raise EngineUnavailable("the generation scheduler is not running") from None

    def _dies_again_and_again(self) -> bool:
        if len(self._deaths) < MANY_DEATHS:
            return False
        return self._clock.now() - self._deaths[0] < DEATHS_WITHIN_S

    # Keeping the socket open.

    async def _keep(self) -> None:
        while True:
            try:
                await self._connect()
                await self._down.wait()
            except Exception as error:
                log.debug("no mailbox yet: %s", error)
            # Also after a connection that was refused at once: it may be refused again.
            await asyncio.sleep(RETRY_S)

    async def _connect(self) -> None:
        description: Description = await asyncio.wait_for(
            _result(self._scheduler.describe.remote()), DESCRIBE_TIMEOUT_S
        )
        self._reader = FrameReader()
        self._down.clear()
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, description.mailbox_host, description.mailbox_port)
        assert self._transport is not None
        self._transport.write(encode(Hello(self.ingress, description.mailbox_secret)))
        self._description = description

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self._up.set()
                events = decode(StepEvents, frame)
                if events.draining:
                    self._on_draining()
                for delta in events.deltas:
                    stream = self._streams.get(delta.request_id)
                    if stream is not None:
                        stream.feed(delta)
        except ProtocolError as error:
            log.error("the mailbox sent nonsense: %s", error)
            if self._transport is not None:
                self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._up.is_set():
            self._deaths.append(self._clock.now())
        self._up.clear()
        self._down.set()
        if self._streams:
            log.warning("the generation scheduler is gone; %d requests end", len(self._streams))
        for stream in set(self._streams.values()):
            stream.fail(EngineUnavailable("the generation scheduler died while it served this request"))


async def _result(response: Any) -> Any:
    return await response
