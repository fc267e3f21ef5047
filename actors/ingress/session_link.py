"""An ingress replica's way to live sessions: a call to the replica that has one, repeated when that one is gone.

Every call may be repeated: a chunk has a name, so that it counts once however often it arrives.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from typing import Any

from ray.exceptions import RayActorError

from actors import errors
from actors.errors import EngineUnavailable
from actors.transcription.pinning import moved
from actors.transcription.session_messages import (
    AppendAudio,
    DiscardSession,
    Elsewhere,
    Failure,
    Finished,
    FinishSession,
    FollowSession,
    Opened,
    OpenSession,
    Receipt,
)
from actors.transcription.spool import CHUNK_ID_BYTES

log = logging.getLogger("troupe.ingress.sessions")

PATIENCE_S = 30.0
"""How long a session may be between two replicas: one has died, or stops, and another one takes it over."""

PAUSE_S = 0.2

_MOST_MOVED = 4096
"""Sessions that are known not to be where their ids say."""


class SessionLink:
    """Implements `SessionClient`. Event loop only.

    Args:
        transcriber: handle of the transcriber's deployment.
    """

    def __init__(self, transcriber: Any) -> None:
        self._transcriber = transcriber
        self._moved: OrderedDict[str, str] = OrderedDict()

    async def open(self, request: OpenSession) -> Opened:
        return await self._ask("open_session", None, request)

    async def append(self, session_id: str, data: bytes, raw: bool) -> Receipt:
        message = AppendAudio(session_id, secrets.token_bytes(CHUNK_ID_BYTES), data, raw)
        return await self._ask("append_audio", session_id, message)

    async def follow(self, session_id: str, segments: int, partial: str | None, patience_s: float) -> Receipt:
        message = FollowSession(session_id, segments, partial, patience_s)
        return await self._ask("follow_session", session_id, message)

    async def finish(self, session_id: str) -> Finished:
        return await self._ask("finish_session", session_id, FinishSession(session_id))

    async def discard(self, session_id: str) -> None:
        await self._ask("discard_session", session_id, DiscardSession(session_id))

    async def _ask(self, method: str, session_id: str | None, message: Any) -> Any:
        """The answer of whichever replica has the session.

        Raises:
            TroupeError: its answer is a failure, or there is none.
        """
        ends = time.monotonic() + PATIENCE_S
        while True:
            answer = await self._call(method, session_id, message)
            if isinstance(answer, Failure):
                raise errors.by_name(answer.error, answer.message)
            if not isinstance(answer, Elsewhere):
                return answer
            if time.monotonic() > ends:
                raise EngineUnavailable("the transcriber that has this session does not answer; try again")
            if session_id is not None:
                self._note(session_id, answer.owner)
            await asyncio.sleep(PAUSE_S)

    async def _call(self, method: str, session_id: str | None, message: Any) -> Any:
        """One call. A replica that is gone makes the session be elsewhere."""
        handle = self._transcriber
        if session_id is not None:
            handle = handle.options(session_id=self._moved.get(session_id, session_id))
        try:
            return await getattr(handle, method).remote(message)
        except (RayActorError, ConnectionError) as error:
            log.info("a replica of the transcriber is gone: %s", error)
            return Elsewhere("")
        except Exception as error:
            raise EngineUnavailable("the transcriber failed at this request") from error

    def _note(self, session_id: str, owner: str) -> None:
        """Ask that replica from now on; nobody's name means that whoever is next in line may take the session."""
        self._moved.pop(session_id, None)
        if owner:
            self._moved[session_id] = moved(session_id, owner)
            while len(self._moved) > _MOST_MOVED:
                self._moved.popitem(last=False)
