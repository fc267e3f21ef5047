"""POST /v1/completions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from actors.ids import text_completion_id
from routes.answer import Outcome
from routes.context import AppContext
from routes.generation import Protocol
from routes.schema.completions import read_text_completion
from routes.schema.fields import Body
from routes.schema.generation import GenerationFields
from routes.sse import frame
from routes.wire import json_bytes


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


def _read(
    context: AppContext, body: Body, headers: Mapping[str, str]
) -> tuple[Callable[[], list[int]], GenerationFields]:
    completion = read_text_completion(body, headers)
    return partial(context.tokenizer.encode, completion.prompt), completion.generation


TEXT = Protocol(text_completion_id, _read, TextShape)
