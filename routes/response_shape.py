"""The Responses protocol's JSON, whole and in events. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from routes.errors import error_message
from routes.parts import Part, Reasoning, ToolCall, joined
from routes.response_items import Numbered, TextItem, call_item
from routes.schema.response_items import Item
from routes.shape import Choice, Usage
from routes.sse import HEARTBEAT
from routes.wire import json_bytes


class ResponseShape:
    """One response. What the model says becomes items in its own order: reasoning, message, calls.

    Args:
        response_id: of the response.
        model: that is served.
        created: seconds since the epoch.
        told: fields that the response repeats from its request.
        custom: names of the functions that stand for custom tools.
    """

    heartbeat = HEARTBEAT
    end = b""

    def __init__(
        self, response_id: str, model: str, created: int, told: Mapping[str, object], custom: frozenset[str]
    ) -> None:
        self._about = {"id": response_id, "object": "response", "created_at": created, "model": model, **told}
        self._custom = custom
        self._events = Numbered()
        self._open: TextItem | None = None
        self.output: list[Item] = []
        """Items that are complete."""
        self.response: Mapping[str, object] | None = None
        """The whole response, once it is complete."""

    def opening(self, index: int) -> bytes:
        begun = self._response("in_progress", None)
        created = self._events.event("response.created", response=begun)
        return created + self._events.event("response.in_progress", response=begun)

    def prompted(self, usage: Usage) -> bytes:
        return b""

    def pieces(self, index: int, parts: Sequence[Part]) -> bytes:
        return b"".join([self._piece(part) for part in parts])

    def closing(self, index: int, finish: str, usage: Usage | None, stop: str | None = None) -> bytes:
        status = "incomplete" if finish == "length" else "completed"
        frames = self._close(status)
        if not self.output and status == "completed":
            frames = self._text(reasoning=False) + self._close(status)
        self.response = self._response(status, usage)
        return frames + self._events.event(f"response.{status}", response=self.response)

    def failing(self, error: Exception) -> bytes:
        frames = self._close("incomplete")
        told = {"code": "server_error", "message": error_message(error)}
        return frames + self._events.event(
            "response.failed", response={**self._response("failed", None), "error": told}
        )

    def whole(self, choices: Sequence[Choice], usage: Usage) -> bytes:
        (choice,) = choices
        self.pieces(0, joined(choice.parts))
        self.closing(0, choice.finish, usage)
        return json_bytes(self.response)

    def _piece(self, part: Part) -> bytes:
        if isinstance(part, ToolCall):
            closed = self._close("completed")
            frames, item = call_item(part, part.name in self._custom, len(self.output), self._events)
            self.output.append(item)
            return closed + frames
        opened = self._text(reasoning=isinstance(part, Reasoning))
        assert self._open is not None
        return opened + self._open.piece(part.text)

    def _text(self, reasoning: bool) -> bytes:
        """Have a message, or a block of reasoning, open."""
        if self._open is not None and self._open.reasoning == reasoning:
            return b""
        closed = self._close("completed")
        self._open = TextItem(reasoning, len(self.output), self._events)
        return closed + self._open.open()

    def _close(self, status: str) -> bytes:
        if self._open is None:
            return b""
        frames, item = self._open.close(status)
        self.output.append(item)
        self._open = None
        return frames

    def _response(self, status: str, usage: Usage | None) -> dict[str, object]:
        return {
            **self._about,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "output": list(self.output),
            "usage": None if usage is None else _usage(usage),
        }


def _usage(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "lane": usage.lane,
    }
