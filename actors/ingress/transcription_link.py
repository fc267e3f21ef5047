"""An ingress replica's way to the transcriber: one streaming actor call a request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from actors import errors
from actors.errors import EngineUnavailable, TroupeError
from actors.transcription import totals
from actors.transcription.messages import (
    Failure,
    Progress,
    Transcribe,
    Transcript,
    TranscriptionStatistics,
    Unloaded,
)
from actors.transcription.pinning import place

log = logging.getLogger("troupe.ingress.transcription")


class TranscriptionLink:
    """Implements `TranscriptionClient`. Event loop only.

    Args:
        transcriber: handle of the transcriber's deployment.
        replicas: finds the unique ids of its replicas; none means that the handle alone will do.
    """

    def __init__(self, transcriber: Any, replicas: Callable[[], Awaitable[list[str]]]) -> None:
        self._transcriber = transcriber
        self._replicas = replicas
        self._streaming = transcriber.options(stream=True)

    async def transcribe(self, request: Transcribe) -> AsyncGenerator[Progress | Transcript, None]:
        stream = self._streaming.transcribe.remote(request)
        over = False
        try:
            async for event in stream:
                if isinstance(event, Failure):
                    raise errors.by_name(event.error, event.message)
                over = isinstance(event, Transcript)
                yield event
            if not over:
                raise EngineUnavailable("the transcription ended without a text")
        except TroupeError:
            over = True
            raise
        except Exception as error:
            over = True
            raise EngineUnavailable("the transcriber died while it served this request") from error
        finally:
            if not over:
                await _give_up(stream)

    async def unload(self) -> Unloaded:
        return totals.unloaded(await self._of_all("unload"))

    async def statistics(self) -> TranscriptionStatistics:
        return totals.together(await self._of_all("statistics"))

    async def _of_all(self, method: str) -> list[Any]:
        """The answers of the replicas. For one that starts or goes at this moment another one answers, and so twice.

        Raises:
            EngineUnavailable: nobody answers.
        """
        try:
            names = await self._replicas()
            handles = [self._transcriber.options(session_id=place(name)) for name in names] or [self._transcriber]
            calls = [_answer(handle, method) for handle in handles]
            found = await asyncio.gather(*calls, return_exceptions=True)
        except Exception as error:
            raise EngineUnavailable("the transcriber does not answer") from error
        answers = [answer for answer in found if not isinstance(answer, BaseException)]
        if not answers:
            raise EngineUnavailable("the transcriber does not answer") from found[0]
        return answers


async def _answer(handle: Any, method: str) -> Any:
    return await getattr(handle, method).remote()


async def _give_up(stream: Any) -> None:
    """Tell the transcriber that nobody waits: Serve's streams are cancelled, a plain one is closed."""
    if hasattr(stream, "cancel"):
        stream.cancel()
    else:
        await stream.aclose()
