"""An ingress replica's way to the transcriber: one streaming actor call a request."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Any

from actors import errors
from actors.errors import EngineUnavailable, TroupeError
from actors.transcription.messages import (
    Failure,
    Progress,
    Transcribe,
    Transcript,
    TranscriptionStatistics,
    Unloaded,
)

log = logging.getLogger("troupe.ingress.transcription")


class TranscriptionLink:
    """Implements `TranscriptionClient`. Event loop only.

    Args:
        transcriber: handle of the transcriber's deployment.
    """

    def __init__(self, transcriber: Any) -> None:
        self._transcriber = transcriber
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
        try:
            return await self._transcriber.unload.remote()
        except Exception as error:
            raise EngineUnavailable("the transcriber does not answer") from error

    async def statistics(self) -> TranscriptionStatistics:
        try:
            return await self._transcriber.statistics.remote()
        except Exception as error:
            raise EngineUnavailable("the transcriber does not answer") from error


async def _give_up(stream: Any) -> None:
    """Tell the transcriber that nobody waits: Serve's streams are cancelled, a plain one is closed."""
    if hasattr(stream, "cancel"):
        stream.cancel()
    else:
        await stream.aclose()
