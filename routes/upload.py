"""An upload: a form with a file, or JSON with base64, bounded while it arrives."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from actors.errors import BodyTooLarge, ClientGone, InvalidRequest, RequestError, UnsupportedMedia
from routes.body import read_json
from routes.schema.audio import body_of_form
from routes.schema.fields import Body

_MOST_FIELDS = 100
_FIELD_BYTES = 1 << 20
_ALIASES = ("file", "input_audio", "audio")


@dataclass(frozen=True, slots=True)
class Upload:
    """What came in."""

    audio: bytes
    """The file."""
    body: Body
    """The other fields."""


async def read_upload(request: Request, limit: int) -> Upload:
    """Read a whole body of at most `limit` bytes.

    Raises:
        UnsupportedMedia: it is neither a form nor JSON.
        InvalidRequest: it is broken, or holds no audio.
        BodyTooLarge: it is longer.
        ClientGone: the client left before its end.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        body = await read_json(request, limit)
        return Upload(await run_in_threadpool(_from_json, body), body)
    if kind == "multipart/form-data":
        return await _from_form(request, limit)
    raise UnsupportedMedia(f"send multipart/form-data or application/json, not {kind or 'a body without a type'}")


class _Form(MultiPartParser):
    """Knows whether the form came to its end; one that is cut short, or too long, leaves no open file behind."""

    def __init__(self, request: Request, limit: int) -> None:
        super().__init__(
            request.headers, self._body(request), max_files=2, max_fields=_MOST_FIELDS, max_part_size=_FIELD_BYTES
        )
        self._limit = limit
        self._size = 0
        self._whole = False
        self.refusal: RequestError | None = None

    def on_end(self) -> None:
        self._whole = True

    async def _body(self, request: Request) -> AsyncGenerator[bytes, None]:
        """What is over the limit is thrown away, up to the limit once more: a client reads the refusal only after it
        has sent everything."""
        try:
            async for chunk in request.stream():
                self._size += len(chunk)
                if self._size <= self._limit:
                    yield chunk
                elif self._size > 2 * self._limit:
                    break
        except ClientDisconnect:
            raise self._refused(ClientGone("the client left while sending its request")) from None
        if self._size > self._limit:
            raise self._refused(BodyTooLarge(f"the body is longer than {self._limit} bytes"))
        if not self._whole:
            raise MultiPartException("it is cut short")

    def _refused(self, error: RequestError) -> MultiPartException:
        self.refusal = error
        return MultiPartException(error.message)


async def _from_form(request: Request, limit: int) -> Upload:
    parser: _Form | None = None
    try:
        parser = _Form(request, limit)
        form = await parser.parse()
    except MultiPartException as error:
        if parser is not None and parser.refusal is not None:
            raise parser.refusal from None
        raise InvalidRequest(f"the form cannot be read: {error.message}") from None
    except (KeyError, ValueError) as error:
        raise InvalidRequest("the form cannot be read: it has no boundary, or is broken") from error
    try:
        return await _parted(form)
    finally:
        await form.close()


async def _parted(form: FormData) -> Upload:
    audio: bytes | None = None
    texts: dict[str, list[str]] = {}
    for name, value in form.multi_items():
        if not isinstance(value, UploadFile):
            texts.setdefault(name, []).append(value)
        elif name in _ALIASES:
            audio = await value.read()
    if audio is None:
        raise InvalidRequest("file must be an uploaded file")
    return Upload(audio, body_of_form(texts))


def _from_json(body: Body) -> bytes:
    for name in _ALIASES:
        value = body.get(name)
        if isinstance(value, dict):
            value = value.get("data")
        if value is None:
            continue
        if not isinstance(value, str):
            raise InvalidRequest(f"{name} must be a string of base64")
        if value.startswith("data:"):
            head, _, value = value.partition(",")
            if not head.endswith(";base64"):
                raise InvalidRequest(f"{name} must be a data URL of base64")
        try:
            return b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidRequest(f"{name} is no valid base64") from None
    raise InvalidRequest("file must hold the audio, as base64 or a data URL")
