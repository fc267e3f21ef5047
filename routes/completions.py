"""POST /v1/completions."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from actors.ids import text_completion_id
from routes.answer import Job, Outcome, answer
from routes.body import read_json
from routes.context import AppContext
from routes.exchange import exchange_of
from routes.schema.completions import read_text_completion
from routes.sse import frame
from routes.wire import json_bytes


class TextCompletions:
    """The route, as an ASGI application."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = self._context
        request_id = text_completion_id()
        exchange_of(scope).request_id = request_id
        request = Request(scope, receive)
        with context.gate.pass_through():
            body = await read_json(request, context.settings.server.max_body_bytes)
            completion = read_text_completion(body, request.headers)
            prompt = partial(context.tokenizer.encode, completion.prompt)
            await answer(Job(context, request_id, prompt, completion.generation, TextShape), scope, receive, send)


class TextShape:
    """The text protocol's JSON. What does not change from frame to frame is encoded once."""

    def __init__(self, response_id: str, model: str, created: int) -> None:
        self._about = {"id": response_id, "object": "text_completion", "created": created, "model": model}
        head, _, tail = self._chunk("", None).rpartition(b'"text":""')
        self._head, self._tail = head + b'"text":', tail

    def opening(self) -> bytes:
        return b""

    def piece(self, text: str) -> bytes:
        return self._head + json_bytes(text) + self._tail

    def closing(self, outcome: Outcome) -> bytes:
        return self._chunk("", outcome.finish, usage=outcome.usage)

    def whole(self, text: str, outcome: Outcome) -> bytes:
        return json_bytes(self._object(text, outcome.finish, usage=outcome.usage))

    def _chunk(self, text: str, finish: str | None, **more: object) -> bytes:
        return frame(json_bytes(self._object(text, finish, **more)))

    def _object(self, text: str, finish: str | None, **more: object) -> dict[str, object]:
        return {**self._about, "choices": [{"index": 0, "text": text, "finish_reason": finish}], **more}
