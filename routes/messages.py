"""POST /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actors.ids import message_id, tool_use_id
from routes.body import read_json
from routes.context import AppContext
from routes.conversation import chat_prompt
from routes.disconnect import while_connected
from routes.embedding_only import refusal
from routes.errors import messages_error
from routes.generation import Protocol
from routes.order import Order
from routes.parts import Content, Part, Reasoning, ToolCall, joined
from routes.schema.fields import Body
from routes.schema.message_request import MessageRequest, read_message_request
from routes.shape import Choice, Usage
from routes.sse import frame
from routes.wire import json_bytes, json_response

PIECE = 1024
"""Characters of a call's arguments in one event."""
_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def _event(kind: str, **fields: object) -> bytes:
    return frame(json_bytes({"type": kind, **fields}), kind)


PING = _event("ping")


class MessageShape:
    """The Messages protocol's JSON. What does not change from event to event is encoded once.

    Args:
        response_id: of the message.
        model: as it is served.
        created: not told in this protocol.
        shows_thinking: whether thinking blocks have their text, or stand empty for it.
    """

    heartbeat = PING
    end = b""

    def __init__(self, response_id: str, model: str, created: int, shows_thinking: bool = True) -> None:
        self._about = {"id": response_id, "type": "message", "role": "assistant", "model": model}
        self._shows_thinking = shows_thinking
        self._blocks = 0
        """Blocks that were begun."""
        self._open: type[Part] | None = None
        """Kind of the block that has not ended yet."""
        self._around = (b"", b"")
        """What stands around the text of a delta of that block."""
        self._thought = hashlib.sha256()

    def opening(self, index: int) -> bytes:
        return b""

    def prompted(self, usage: Usage) -> bytes:
        message = {**self._about, "content": [], "stop_reason": None, "stop_sequence": None}
        return _event("message_start", message={**message, "usage": _counts(usage, output=0)}) + PING

    def pieces(self, index: int, parts: Sequence[Part]) -> bytes:
        return b"".join([self._call(part) if isinstance(part, ToolCall) else self._say(part) for part in parts])

    def closing(self, index: int, finish: str, usage: Usage | None, stop: str | None = None) -> bytes:
        counts = {} if usage is None else {"usage": _counts(usage, usage.completion_tokens)}
        return (
            self._end_block() + _event("message_delta", delta=_stopped(finish, stop), **counts) + _event("message_stop")
        )

    def failing(self, error: Exception) -> bytes:
        return frame(json_bytes(messages_error(error)), "error")

    def whole(self, choices: Sequence[Choice], usage: Usage) -> bytes:
        (choice,) = choices
        message = {**self._about, "content": self._content(choice.parts), **_stopped(choice.finish, choice.stop)}
        return json_bytes({**message, "usage": _counts(usage, usage.completion_tokens)})

    # A stream's blocks.

    def _say(self, part: Content | Reasoning) -> bytes:
        begun = b"" if self._open is type(part) else self._end_block() + self._begin_block(type(part))
        if isinstance(part, Reasoning):
            self._thought.update(part.text.encode("utf-8", "replace"))
            if not self._shows_thinking:
                return begun
        head, tail = self._around
        return begun + head + json_bytes(part.text) + tail

    def _call(self, part: ToolCall) -> bytes:
        ended = self._end_block()
        begun = self._start({"type": "tool_use", "id": tool_use_id(), "name": part.name, "input": {}})
        pieces = [part.arguments[start : start + PIECE] for start in range(0, len(part.arguments), PIECE)]
        deltas = [self._delta({"type": "input_json_delta", "partial_json": piece}) for piece in pieces]
        return b"".join([ended, begun, *deltas, self._stop()])

    def _begin_block(self, kind: type[Content] | type[Reasoning]) -> bytes:
        self._open = kind
        self._thought = hashlib.sha256()
        name = "text" if kind is Content else "thinking"
        begun = self._start({"type": "text", "text": ""} if kind is Content else _thinking("", ""))
        # The text of a delta stands last in it, so that one cut takes it out whatever the names are.
        head, _, tail = self._delta({"type": f"{name}_delta", name: ""}).rpartition(b'""')
        self._around = (head, tail)
        return begun

    def _end_block(self) -> bytes:
        kind, self._open = self._open, None
        if kind is None:
            return b""
        if kind is Content:
            return self._stop()
        return self._delta({"type": "signature_delta", "signature": _signature(self._thought.digest())}) + self._stop()

    def _start(self, block: dict[str, object]) -> bytes:
        self._blocks += 1
        return _event("content_block_start", index=self._blocks - 1, content_block=block)

    def _delta(self, delta: dict[str, object]) -> bytes:
        return _event("content_block_delta", index=self._blocks - 1, delta=delta)

    def _stop(self) -> bytes:
        return _event("content_block_stop", index=self._blocks - 1)

    # A whole message's blocks.

    def _content(self, parts: Sequence[Part]) -> list[dict[str, object]]:
        blocks: list[dict[str, object]] = []
        for part in joined(parts):
            if isinstance(part, ToolCall):
                arguments = msgspec.Raw(part.arguments.encode("utf-8", "replace"))
                blocks.append({"type": "tool_use", "id": tool_use_id(), "name": part.name, "input": arguments})
            elif isinstance(part, Content):
                blocks.append({"type": "text", "text": part.text})
            else:
                signature = _signature(hashlib.sha256(part.text.encode("utf-8", "replace")).digest())
                blocks.append(_thinking(part.text if self._shows_thinking else "", signature))
        return blocks


def _thinking(text: str, signature: str) -> dict[str, object]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def _signature(digest: bytes) -> str:
    """Clients ask for one and send it back. Ours is the text's own checksum and proves nothing."""
    return base64.b64encode(digest).decode()


def _stopped(finish: str, stop: str | None) -> dict[str, object]:
    if stop is not None and finish == "stop":
        return {"stop_reason": "stop_sequence", "stop_sequence": stop}
    return {"stop_reason": _REASONS[finish], "stop_sequence": None}


def _counts(usage: Usage, output: int) -> dict[str, object]:
    """The protocol counts what was read from the cache beside the input, not in it."""
    cached = {"cache_read_input_tokens": usage.cached_tokens} if usage.cached_tokens else {}
    return {"input_tokens": usage.prompt_tokens - usage.cached_tokens, **cached, "output_tokens": output}


def _checked(context: AppContext, body: Body, headers: Mapping[str, str]) -> MessageRequest:
    return read_message_request(body, headers, context.card.model_id, context.tokenizer.template_text)


async def _read(context: AppContext, body: Body, headers: Mapping[str, str]) -> Order:
    request = _checked(context, body, headers)
    shape = partial(MessageShape, shows_thinking=request.shows_thinking)
    return Order(lambda words: chat_prompt(context, request.chat, words), request.chat.generation, shape)


MESSAGES = Protocol(message_id, _read)


class TokenCountRoute:
    """How many tokens the prompt of a request would have, as an ASGI application. Nothing is generated."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, context = Request(scope, receive), self._context
        with context.gate.pass_through():
            if not context.generates:
                raise refusal(context.card.model_id, "speech" if context.transcribes else "embedding")
            body = await read_json(request, context.settings.server.max_body_bytes)
            asked = _checked(context, body, request.headers)
            async with while_connected(receive):
                prompt = await context.preparation.run(lambda: chat_prompt(context, asked.chat, None))
            response: Response = json_response({"input_tokens": len(prompt.tokens)})
            await response(scope, receive, send)
