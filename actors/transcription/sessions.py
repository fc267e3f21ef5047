"""The live sessions of one replica: opens them, takes over those of a replica that is gone, ends and expires them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from actors import ids
from actors.clock import Clock, MonotonicClock
from actors.errors import (
    Conflict,
    Expired,
    GenerationFailed,
    NotFound,
    QueueFull,
    ShuttingDown,
    StoreUnavailable,
    TroupeError,
)
from actors.session_settings import SessionSettings
from actors.transcription.clip import Clip
from actors.transcription.listener import Listener, Prepared
from actors.transcription.live import LiveSession
from actors.transcription.messages import Failure
from actors.transcription.session import Session, idle_words
from actors.transcription.session_messages import (
    AppendAudio,
    Discarded,
    DiscardSession,
    Elsewhere,
    Finished,
    FinishSession,
    FollowSession,
    Opened,
    OpenSession,
    Receipt,
    SessionStatistics,
)
from actors.transcription.spool import Spool, SpoolFolder
from actors.transcription.vad import VoiceStream

log = logging.getLogger("troupe.transcription.sessions")
T = TypeVar("T")

LINE = 16
"""Calls about one session that may wait for each other."""

_LOOKS = 5
"""How often an idle session is looked at until it expires."""


class Sessions:
    """All methods are called on one event loop.

    Args:
        settings: of live sessions.
        listener: transcribes.
        folder: where audio is kept; its owner is this replica.
        replica: name of this replica.
        clock: tells who is idle.
    """

    def __init__(
        self,
        settings: SessionSettings,
        listener: Listener,
        folder: SpoolFolder,
        replica: str,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._folder = folder
        self._replica = replica
        self._now = (clock or MonotonicClock()).now
        self._open: dict[str, LiveSession] = {}
        self._adopting: dict[str, asyncio.Future[LiveSession | Elsewhere | Failure]] = {}
        self._calls: set[asyncio.Future[Any]] = set()
        self._tally: Counter[str] = Counter()
        self._received_s = 0.0
        self._closed = False
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """Sessions that are open here."""
        return len(self._open)

    def start(self) -> None:
        """Begin to look for idle sessions."""
        self._sweeper = asyncio.ensure_future(self._sweep_for_ever())

    async def close(self) -> None:
        """Let go of every session; another replica goes on with them, or this one after a restart."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait({self._sweeper})
        for live in list(self._open.values()):
            await live.cancel()
            live.spool.close()
        ended, self._open = self._open, {}
        for live in ended.values():
            live.drop()

    async def open_session(self, message: OpenSession) -> Opened | Failure:
        """Load what is needed and begin a session, which expires if the call was cancelled."""
        return await self._kept(self._begin(message))

    async def append_audio(self, message: AppendAudio) -> Receipt | Elsewhere | Failure:
        """Keep a chunk; it is safe when this returns. Cancelling stops only the waiting."""

        async def append(live: LiveSession) -> Receipt:
            before = live.session.samples
            async with self._listener.budget.taking(message.raw):
                await asyncio.to_thread(live.take, message)
            self._received_s += (live.session.samples - before) / 16_000
            live.stir()
            return live.receipt()

        return await self._kept(self._with(message.session_id, append))

    async def follow_session(self, message: FollowSession) -> Receipt | Elsewhere | Failure:
        """Wait for news. Whoever follows a session shows that somebody is there."""

        async def follow() -> Receipt | Elsewhere | Failure:
            live = await self._find(message.session_id)
            if not isinstance(live, LiveSession):
                return live
            live.session.touch(self._now())
            await live.news(message.segments, message.partial, message.patience_s)
            if live.failure is not None:
                await self._kept(self._bury(live))
                return live.failure
            if not live.dropped:
                return live.receipt()
            found = await self._find(message.session_id)  # says why it is over, or that another replica has it
            return Elsewhere("") if isinstance(found, LiveSession) else found

        return await self._answer(follow())

    async def finish_session(self, message: FinishSession) -> Finished | Elsewhere | Failure:
        """Transcribe the rest. Cancelling stops only the waiting: the session is over in any case."""
        return await self._kept(self._finish(message.session_id))

    async def discard_session(self, message: DiscardSession) -> Discarded | Elsewhere | Failure:
        """Forget a session and its audio, whatever it is doing."""

        async def discard() -> Discarded | Elsewhere | Failure:
            live = await self._find(message.session_id)
            if not isinstance(live, LiveSession):
                return live
            async with live.order:
                await self._drop(live, None, "discarded")
            return Discarded()

        return await self._kept(discard())

    async def statistics(self) -> SessionStatistics:
        tally = self._tally
        return SessionStatistics(
            open_sessions=len(self._open),
            opened_sessions=tally["opened"],
            resumed_sessions=tally["resumed"],
            finished_sessions=tally["finished"],
            discarded_sessions=tally["discarded"],
            expired_sessions=tally["expired"],
            failed_sessions=tally["failed"],
            received_s=self._received_s,
        )

    async def sweep(self) -> None:
        """End the sessions, here and of replicas that are gone, of whose clients nothing was heard for too long."""
        for live in list(self._open.values()):
            if not live.waiting and live.session.expire(self._now()):
                await self._drop(live, "expired", "expired")
        self._tally["expired"] += await asyncio.to_thread(self._folder.sweep, self._settings.idle_s)

    async def _begin(self, message: OpenSession) -> Opened | Failure:
        if self._closed:
            raise ShuttingDown("the server is shutting down")
        prepared = await self._listener.prepare(message.options)
        name = ids.audio_session_id(self._replica)
        head = msgspec.json.encode(message)
        spool = await asyncio.to_thread(self._folder.create, name, head, self._settings.max_sessions)
        if spool is None:
            raise QueueFull(f"{self._settings.max_sessions} sessions are open; no more are allowed at once")
        try:
            await self._live(name, message, prepared, spool)
        except BaseException:
            await asyncio.to_thread(spool.remove, None)
            raise
        self._tally["opened"] += 1
        return Opened(name, prepared.model_id, prepared.vocabulary)

    async def _live(
        self, name: str, opened: OpenSession, prepared: Prepared, spool: Spool, replay: bool = False
    ) -> LiveSession:
        settings = self._settings
        clip = Clip(prepared.mels, prepared.options)
        voice = VoiceStream(await asyncio.to_thread(self._listener.voice)) if opened.voice is not None else None
        session = Session(clip, opened.voice, settings.max_s, settings.idle_s, self._now())
        live = LiveSession(name, opened, prepared, session, clip, spool, voice, self._listener, self._now)
        if replay:
            await asyncio.to_thread(live.replay)
        if self._closed:
            raise ShuttingDown("the server is shutting down")
        self._open[name] = live
        live.kept.enter_context(self._listener.budget.counted(live))
        live.start()
        return live

    async def _find(self, name: str) -> LiveSession | Elsewhere | Failure:
        """A session, taken over if need be; by one call for all that ask for it."""
        if (live := self._open.get(name)) is not None:
            return live
        if name not in self._adopting:
            self._adopting[name] = asyncio.ensure_future(self._answer(self._adopt(name)))
            self._adopting[name].add_done_callback(lambda _: self._adopting.pop(name))
        return await asyncio.shield(self._adopting[name])

    async def _adopt(self, name: str) -> LiveSession | Elsewhere | Failure:
        if self._closed:
            return Elsewhere("")
        found = await asyncio.to_thread(self._folder.adopt, name)
        if isinstance(found, str):
            return Elsewhere("" if found == self._replica else found)
        if found is None:
            raise _over(await asyncio.to_thread(self._folder.why_over, name), self._settings.idle_s)
        try:
            if found.idle_s() > self._settings.idle_s:
                await asyncio.to_thread(found.remove, "expired")
                self._tally["expired"] += 1
                raise Expired(idle_words(self._settings.idle_s))
            opened = msgspec.json.decode(found.head, type=OpenSession)
            prepared = await self._listener.prepare(opened.options)
            live = await self._live(name, opened, prepared, found, replay=True)
        except BaseException:
            found.close()
            raise
        self._tally["resumed"] += 1
        log.info("%s is resumed: %.0f s of audio", name, live.session.duration_s)
        return live

    async def _with(self, name: str, work: Callable[[LiveSession], Awaitable[T]]) -> T | Elsewhere | Failure:
        """Do something to a session when all that came before is done."""
        live = await self._find(name)
        if not isinstance(live, LiveSession):
            return live
        if live.waiting >= LINE:
            raise QueueFull(f"{LINE} calls wait for this session; send one after the other")
        live.waiting += 1
        try:
            async with live.order:
                if live.failure is not None:
                    await self._drop(live, "failed", "failed")
                    return live.failure
                return await work(live)
        finally:
            live.waiting -= 1

    async def _finish(self, name: str) -> Finished | Elsewhere | Failure:
        async def end(live: LiveSession) -> LiveSession:
            await asyncio.to_thread(live.end)
            live.stir()
            return live

        started = self._now()
        live = await self._with(name, end)
        if not isinstance(live, LiveSession):
            return live
        await live.ended()
        if live.failure is not None:
            await self._drop(live, "failed", "failed")
            return live.failure
        if live.session.state != "finished":
            return Elsewhere("")  # this replica closes; the session is as it was before
        finished = live.finished(self._now() - started)
        await self._drop(live, "finished", "finished")
        return finished

    async def _bury(self, live: LiveSession) -> None:
        """Forget a session that has failed."""
        async with live.order:
            await self._drop(live, "failed", "failed")

    async def _drop(self, live: LiveSession, reason: str | None, tally: str) -> None:
        """Forget a session; the reason is told to those who come too late."""
        if self._open.pop(live.name, None) is None:
            return
        self._tally[tally] += 1
        await live.cancel()
        try:
            await asyncio.to_thread(live.spool.remove, reason)
        finally:
            live.drop()

    async def _kept(self, work: Coroutine[Any, Any, T]) -> T | Failure:
        """The answer of work that goes on when nobody waits for it: threads cannot be stopped half-way."""
        task = asyncio.ensure_future(self._answer(work))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return await asyncio.shield(task)

    async def _answer(self, work: Awaitable[T]) -> T | Failure:
        try:
            return await work
        except TroupeError as error:
            return Failure(type(error).__name__, error.message)
        except OSError as error:
            log.warning("the audio of a session cannot be kept: %s", error)
            return Failure(StoreUnavailable.__name__, f"the audio cannot be kept: {error.strerror or error}")

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.idle_s / _LOOKS)
            with contextlib.suppress(OSError):
                await self.sweep()


def _over(reason: str | None, idle_s: float) -> TroupeError:
    """Why a session is not there."""
    if reason == "expired":
        return Expired(idle_words(idle_s))
    if reason == "finished":
        return Conflict("the session is finished")
    if reason == "failed":
        return GenerationFailed("the session has failed; begin a new one")
    return NotFound("there is no such session")
