"""/v1/audio/sessions: audio that is transcribed while it is recorded."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from actors.errors import InvalidRequest, UnsupportedMedia
from actors.transcription.session_messages import Finished, OpenSession, Receipt
from routes.body import read_bytes, read_json
from routes.context import AppContext
from routes.disconnect import while_connected
from routes.schema import fields
from routes.schema.audio import read_audio_fields
from routes.schema.fields import Body
from routes.transcript import document
from routes.wire import json_response

RAW = "audio/pcm"
RATE = "16000"

_NO_SOUND = ("application/json", "multipart/form-data", "application/x-www-form-urlencoded", "text/plain")


class AudioSessionRoutes:
    """The four requests of a session's life."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def create(self, request: Request) -> Response:
        """Begin one."""
        context = self._context
        with context.gate.pass_through():
            wanted = read_session(await read_json(request, context.settings.server.max_body_bytes))
            async with while_connected(request.receive):
                opened = await context.audio_sessions.open(wanted)
        vocabulary = None if opened.vocabulary is None else opened.vocabulary.plain()
        return json_response({"id": opened.session_id, "model": opened.model_id, "vocabulary": vocabulary})

    async def append(self, request: Request) -> Response:
        """Add a chunk."""
        context = self._context
        with context.gate.pass_through():
            raw = is_raw(request.headers.get("content-type", ""))
            data = bytes(await read_bytes(request, context.settings.server.max_body_bytes))
            async with while_connected(request.receive):
                receipt = await context.audio_sessions.append(request.path_params["session_id"], data, raw)
        return json_response(receipt_body(receipt))

    async def finish(self, request: Request) -> Response:
        """Transcribe the rest."""
        context = self._context
        with context.gate.pass_through():
            await read_bytes(request, context.settings.server.max_body_bytes)
            async with while_connected(request.receive):
                finished = await context.audio_sessions.finish(request.path_params["session_id"])
        return json_response(finished_body(finished))

    async def discard(self, request: Request) -> Response:
        """Forget it."""
        with self._context.gate.pass_through():
            await self._context.audio_sessions.discard(request.path_params["session_id"])
        return Response(status_code=204)


def read_session(body: Body) -> OpenSession:
    """The beginning of a session. Raises InvalidRequest."""
    if fields.boolean(body, "stream"):
        raise InvalidRequest("a session does not answer with a stream; its WebSocket tells what is new")
    wanted = read_audio_fields(body, formats=("json", "verbose_json"))
    partials = fields.boolean(body, "partials") or False
    return OpenSession(wanted.options, wanted.voice, partials, wanted.format == "verbose_json")


def is_raw(content_type: str) -> bool:
    """Whether a chunk is float32 samples, else it is a file.

    Raises:
        InvalidRequest: samples of another rate, or of several channels.
        UnsupportedMedia: it is said to be no sound.
    """
    kind, *parameters = (part.strip().lower() for part in content_type.split(";"))
    if kind in _NO_SOUND:
        raise UnsupportedMedia(f"send {RAW};rate={RATE} or an audio file, not {kind}")
    if kind != RAW:
        return False
    meant = {"rate": RATE, "channels": "1"}
    given = (part.partition("=") for part in parameters)
    if any(value.strip('"') != meant.get(name, value.strip('"')) for name, _, value in given):
        raise InvalidRequest(f"{RAW} means float32 samples of one channel at {RATE} Hz; send other audio as a file")
    return True


def receipt_body(receipt: Receipt) -> dict[str, object]:
    """How far a session is."""
    body: dict[str, object] = {
        "samples": receipt.samples,
        "duration": receipt.samples / int(RATE),
        "speech": receipt.speech,
        "segments": receipt.segments,
    }
    return body if receipt.partial is None else {**body, "partial": receipt.partial}


def finished_body(finished: Finished) -> dict[str, object]:
    """The answer of a one-shot transcription."""
    return document(finished.transcript, "verbose_json" if finished.verbose else "json")
