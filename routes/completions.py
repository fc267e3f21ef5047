"""POST /v1/completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.ids import text_completion_id
from routes.context import AppContext
from routes.generation import Protocol
from routes.order import Order
from routes.output import plain_splitter
from routes.parts import Part, ToolCall
from routes.prompt import Prompt
from routes.schema.completions import read_text_completion
from routes.schema.fields import Body
from routes.shape import Choice, Usage
from routes.sse import DONE, HEARTBEAT, error_frame, frame
from routes.wire import json_bytes


class TextShape:
    """The text protocol's JSON. What does not change from frame to frame is encoded once."""

    heartbeat = HEARTBEAT
    end = DONE

    def __init__(self, response_id: str, model: str, created: int) -> None:
        self._about = {"id": response_id, "object": "text_completion", "created": created, "model": model}
        self._around: dict[int, tuple[bytes, bytes]] = {}

    def opening(self, index: int) -> bytes:
        return b""

    def prompted(self, usage: Usage) -> bytes:
        return b""

    def pieces(self, index: int, parts: Sequence[Part]) -> bytes:
        if index not in self._around:
            head, _, tail = self._chunk(index, "", None, None).rpartition(b'"text":""')
            self._around[index] = (head + b'"text":', tail)
        head, tail = self._around[index]
        return b"".join([head + json_bytes(part.text) + tail for part in parts if not isinstance(part, ToolCall)])

    def closing(self, index: int, finish: str, usage: Usage | None, stop: str | None = None) -> bytes:
        return self._chunk(index, "", finish, usage)

    def failing(self, error: Exception) -> bytes:
        return error_frame(error)

    def whole(self, choices: Sequence[Choice], usage: Usage) -> bytes:
        listed = [_choice(index, choice) for index, choice in enumerate(choices)]
        return json_bytes({**self._about, "choices": listed, "usage": usage.counted()})

    def _chunk(self, index: int, text: str, finish: str | None, usage: Usage | None) -> bytes:
        choices = [{"index": index, "text": text, "finish_reason": finish}]
        return frame(
            json_bytes({**self._about, "choices": choices, **({} if usage is None else {"usage": usage.counted()})})
        )


def _choice(index: int, choice: Choice) -> dict[str, object]:
    entry: dict[str, object] = {"index": index, "text": choice.content, "finish_reason": choice.finish}
    return entry if choice.logprobs is None else {**entry, "logprobs": choice.logprobs}


async def _read(context: AppContext, body: Body, headers: Mapping[str, str]) -> Order:
    completion = read_text_completion(body, headers)

    def prompt(_: str | None) -> Prompt:
        tokens = context.tokenizer.encode(completion.prompt)
        return Prompt(tokens, plain_splitter, constraint=completion.generation.constraint)

    return Order(prompt, completion.generation, TextShape)


TEXT = Protocol(text_completion_id, _read)
"""The way of every raw continuation."""
