"""POST /v1/chat/completions."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from actors.ids import chat_completion_id
from routes.answer import Job, Outcome, answer
from routes.body import read_json
from routes.context import AppContext
from routes.exchange import exchange_of
from routes.schema.chat import read_chat_completion
from routes.sse import frame
from routes.wire import json_bytes


class ChatCompletions:
    """The route, as an ASGI application."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = self._context
        request_id = chat_completion_id()
        exchange_of(scope).request_id = request_id
        request = Request(scope, receive)
        with context.gate.pass_through():
            body = await read_json(request, context.settings.server.max_body_bytes)
            chat = read_chat_completion(body, request.headers, context.card.model_id)
            prompt = partial(context.tokenizer.render, chat.messages, chat.template_variables, chat.reasoning_effort)
            await answer(Job(context, request_id, prompt, chat.generation, ChatShape), scope, receive, send)


class ChatShape:
    """The chat protocol's JSON. What does not change from frame to frame is encoded once."""

    def __init__(self, response_id: str, model: str, created: int) -> None:
        self._about = {"id": response_id, "created": created, "model": model}
        self._head, self._tail = self._around_content()

    def opening(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""}, None)

    def piece(self, text: str) -> bytes:
        return self._head + json_bytes(text) + self._tail

    def closing(self, outcome: Outcome) -> bytes:
        return self._chunk({}, outcome.finish, usage=outcome.usage)

    def whole(self, text: str, outcome: Outcome) -> bytes:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": outcome.finish}
        return json_bytes({**self._about, "object": "chat.completion", "choices": [choice], "usage": outcome.usage})

    def _chunk(self, delta: dict[str, str], finish: str | None, **more: object) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return frame(json_bytes({**self._about, "object": "chat.completion.chunk", "choices": [choice], **more}))

    def _around_content(self) -> tuple[bytes, bytes]:
        head, _, tail = self._chunk({"content": ""}, None).rpartition(b'"content":""')
        return head + b'"content":', tail
