"""POST /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from actors.ids import chat_completion_id
from routes.answer import Outcome
from routes.context import AppContext
from routes.generation import Protocol
from routes.schema.chat import read_chat_completion
from routes.schema.fields import Body
from routes.schema.generation import GenerationFields
from routes.sse import frame
from routes.wire import json_bytes


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


def _read(
    context: AppContext, body: Body, headers: Mapping[str, str]
) -> tuple[Callable[[], list[int]], GenerationFields]:
    chat = read_chat_completion(body, headers, context.card.model_id)
    prompt = partial(context.tokenizer.render, chat.messages, chat.template_variables, chat.reasoning_effort)
    return prompt, chat.generation


CHAT = Protocol(chat_completion_id, _read, ChatShape)
