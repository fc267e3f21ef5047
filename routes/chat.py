"""POST /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.ids import chat_completion_id, tool_call_id
from routes.context import AppContext
from routes.conversation import chat_prompt
from routes.generation import Protocol
from routes.order import Order
from routes.parts import Content, Part, ToolCall
from routes.schema.chat import read_chat_completion
from routes.schema.fields import Body
from routes.shape import Choice, Usage
from routes.sse import DONE, HEARTBEAT, error_frame, frame
from routes.wire import json_bytes


class ChatShape:
    """The chat protocol's JSON. What does not change from frame to frame is encoded once."""

    heartbeat = HEARTBEAT
    end = DONE

    def __init__(self, response_id: str, model: str, created: int) -> None:
        self._about = {"id": response_id, "created": created, "model": model}
        self._around: dict[tuple[int, str], tuple[bytes, bytes]] = {}
        self._calls: dict[int, int] = {}

    def opening(self, index: int) -> bytes:
        return self._chunk(index, {"role": "assistant", "content": ""}, None)

    def prompted(self, usage: Usage) -> bytes:
        return b""

    def pieces(self, index: int, parts: Sequence[Part]) -> bytes:
        return b"".join([self._piece(index, part) for part in parts])

    def closing(self, index: int, finish: str, usage: Usage | None, stop: str | None = None) -> bytes:
        return self._chunk(index, {}, finish, **({} if usage is None else {"usage": usage.counted()}))

    def failing(self, error: Exception) -> bytes:
        return error_frame(error)

    def whole(self, choices: Sequence[Choice], usage: Usage) -> bytes:
        listed = [_choice(index, choice) for index, choice in enumerate(choices)]
        return json_bytes({**self._about, "object": "chat.completion", "choices": listed, "usage": usage.counted()})

    def _piece(self, index: int, part: Part) -> bytes:
        if isinstance(part, ToolCall):
            number = self._calls.get(index, 0)
            self._calls[index] = number + 1
            return self._chunk(index, {"tool_calls": [{"index": number, **_call(part)}]}, None)
        head, tail = self._around_text(index, "content" if isinstance(part, Content) else "reasoning")
        return head + json_bytes(part.text) + tail

    def _chunk(self, index: int, delta: dict[str, object], finish: str | None, **more: object) -> bytes:
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        return frame(json_bytes({**self._about, "object": "chat.completion.chunk", "choices": [choice], **more}))

    def _around_text(self, index: int, name: str) -> tuple[bytes, bytes]:
        around = self._around.get((index, name))
        if around is None:
            key = json_bytes(name)
            head, _, tail = self._chunk(index, {name: ""}, None).rpartition(key + b':""')
            around = self._around[index, name] = (head + key + b":", tail)
        return around


def _choice(index: int, choice: Choice) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": choice.content}
    if choice.reasoning:
        message["reasoning"] = choice.reasoning
    if choice.calls:
        message["content"] = choice.content or None
        message["tool_calls"] = [_call(call) for call in choice.calls]
    entry = {"index": index, "message": message, "finish_reason": choice.finish}
    return entry if choice.logprobs is None else {**entry, "logprobs": choice.logprobs}


def _call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": tool_call_id(), "type": "function", "function": function}


async def _read(context: AppContext, body: Body, headers: Mapping[str, str]) -> Order:
    chat = read_chat_completion(body, headers, context.card.model_id)
    return Order(lambda words: chat_prompt(context, chat, words), chat.generation, ChatShape)


CHAT = Protocol(chat_completion_id, _read)
