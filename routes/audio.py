"""POST /v1/audio/transcriptions, /v1/audio/translations and /admin/transcription/unload."""

from __future__ import annotations

from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actors import ids
from actors.errors import ClientGone, EngineUnavailable, TroupeError
from actors.transcription.messages import Progress, Transcribe, Transcript
from actors.transcription.options import Task
from routes.context import AppContext
from routes.disconnect import while_connected
from routes.exchange import Exchange, exchange_of, note_error
from routes.schema.audio import AudioFields, read_audio_fields
from routes.sse import EventStream, error_frame, frame
from routes.transcript import MEDIA, document, headers, written
from routes.upload import read_upload
from routes.wire import json_bytes, json_response


class TranscriptionRoute:
    """An ASGI application for one of the two tasks."""

    def __init__(self, context: AppContext, task: Task) -> None:
        self._context = context
        self._task: Task = task

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context, exchange = self._context, exchange_of(scope)
        exchange.request_id = request_id = ids.transcription_id()
        with context.gate.pass_through():
            upload = await read_upload(Request(scope, receive), context.settings.server.max_body_bytes)
            wanted = read_audio_fields(upload.body, self._task)
            request = Transcribe(request_id, upload.audio, wanted.options, wanted.voice)
            try:
                async with while_connected(receive):
                    if wanted.stream:
                        await self._stream(request, wanted, exchange, send)
                        return
                    transcript = await self._transcript(request)
            except ClientGone:
                context.gate.count_gone()
                raise
            content, media = written(transcript, wanted.format), MEDIA[wanted.format]
            answer = Response(content, headers=headers(transcript, wanted.format), media_type=media)
            await answer(scope, receive, send)

    async def _transcript(self, request: Transcribe) -> Transcript:
        async with aclosing(self._context.transcription.transcribe(request)) as events:
            async for event in events:
                if isinstance(event, Transcript):
                    return event
        raise EngineUnavailable("the transcription ended without a text")

    async def _stream(self, request: Transcribe, wanted: AudioFields, exchange: Exchange, send: Send) -> None:
        """Errors before the first event are answered as such; later ones are the last event."""
        stream = EventStream(send)
        try:
            with self._context.gate.streaming():
                async with aclosing(self._context.transcription.transcribe(request)) as events:
                    async for event in events:
                        if not stream.begun:
                            await stream.begin()
                        if isinstance(event, Transcript):
                            done = {"type": "transcript.text.done", **document(event, wanted.format)}
                            await stream.end(frame(json_bytes(done), "transcript.text.done"))
                        else:
                            await stream.write(_frames(event))
        except TroupeError as error:
            if not stream.begun or isinstance(error, ClientGone):
                raise
            note_error(exchange, error)
            await stream.end(error_frame(error))


class UnloadRoute:
    """POST /admin/transcription/unload."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def unload(self, request: Request) -> Response:
        """Page the weights out, if nobody uses them."""
        answer = await self._context.transcription.unload()
        return json_response({"unloaded": answer.unloaded, **answer.statistics.block()})


def _frames(progress: Progress) -> bytes:
    events: list[dict[str, object]] = [
        {
            "type": "transcript.text.delta",
            "delta": segment["text"],
            "segment": {name: segment[name] for name in ("id", "start", "end")},
        }
        for segment in progress.segments
        if segment["text"]
    ]
    events.append({"type": "transcript.progress", "done": progress.done, "total": progress.total})
    return b"".join(frame(json_bytes(event), str(event["type"])) for event in events)
