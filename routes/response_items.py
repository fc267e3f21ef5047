"""The output items of a response, each with the events that make it. Pure."""

from __future__ import annotations

import msgspec

from actors.ids import item_id, tool_call_id
from routes.parts import ToolCall
from routes.schema.response_items import Item
from routes.schema.response_tools import INPUT
from routes.sse import frame
from routes.wire import json_bytes


class Numbered:
    """Writes events, and counts them."""

    def __init__(self) -> None:
        self._count = 0

    def event(self, kind: str, **more: object) -> bytes:
        """One event with the next sequence number."""
        number = self._count
        self._count += 1
        return frame(json_bytes({"type": kind, "sequence_number": number, **more}), kind)


class TextItem:
    """An item whose text comes in pieces: the message, or a block of reasoning.

    Args:
        reasoning: which of the two.
        place: index of the item in the output.
        events: writes the events.
    """

    def __init__(self, reasoning: bool, place: int, events: Numbered) -> None:
        self.reasoning = reasoning
        self._id = item_id("rs" if reasoning else "msg")
        self._events = events
        self._item = {"item_id": self._id, "output_index": place}
        self._where = {**self._item, "summary_index" if reasoning else "content_index": 0}
        self._place = place
        self._pieces: list[str] = []

    def open(self) -> bytes:
        """It begins."""
        added = self._events.event(
            "response.output_item.added", output_index=self._place, item=self._whole("in_progress", None)
        )
        return added + self._events.event(f"{self._part_event}.added", **self._where, part=self._part(""))

    def piece(self, text: str) -> bytes:
        """It goes on."""
        self._pieces.append(text)
        return self._events.event(f"{self._text_event}.delta", **self._where, delta=text, **self._scores)

    def close(self, status: str) -> tuple[bytes, Item]:
        """It ends, `completed` or `incomplete`: the events, and the item."""
        text = "".join(self._pieces)
        item = self._whole(status, text)
        done = self._events.event(f"{self._text_event}.done", **self._where, text=text, **self._scores)
        done += self._events.event(f"{self._part_event}.done", **self._where, part=self._part(text))
        return done + self._events.event("response.output_item.done", output_index=self._place, item=item), item

    @property
    def _text_event(self) -> str:
        return "response.reasoning_summary_text" if self.reasoning else "response.output_text"

    @property
    def _part_event(self) -> str:
        return "response.reasoning_summary_part" if self.reasoning else "response.content_part"

    @property
    def _scores(self) -> dict[str, object]:
        """Log-probabilities, of which this protocol's library wants a list even where there are none."""
        return {} if self.reasoning else {"logprobs": []}

    def _part(self, text: str) -> dict[str, object]:
        if self.reasoning:
            return {"type": "summary_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def _whole(self, status: str, text: str | None) -> Item:
        parts = [] if text is None else [self._part(text)]
        if self.reasoning:
            return {"id": self._id, "type": "reasoning", "status": status, "summary": parts}
        return {"id": self._id, "type": "message", "status": status, "role": "assistant", "content": parts}


def call_item(call: ToolCall, custom: bool, place: int, events: Numbered) -> tuple[bytes, Item]:
    """A call, which is complete when it is known: its events, and the item.

    Args:
        call: of a function.
        custom: the function stands for a custom tool, whose input is plain text.
        place: index of the item in the output.
        events: writes the events.
    """
    identity = item_id("ctc" if custom else "fc")
    kind, field = ("custom_tool_call", "input") if custom else ("function_call", "arguments")
    text = _input(call.arguments) if custom else call.arguments
    item = {"id": identity, "type": kind, "call_id": tool_call_id(), "name": call.name, "status": "completed"}
    where = {"item_id": identity, "output_index": place}
    event = "response.custom_tool_call_input" if custom else "response.function_call_arguments"
    begun = {**item, "status": "in_progress", field: ""}
    whole = {**item, field: text}
    frames = events.event("response.output_item.added", output_index=place, item=begun)
    frames += events.event(f"{event}.delta", **where, delta=text)
    named = {} if custom else {"name": call.name}
    frames += events.event(f"{event}.done", **where, **named, **{field: text})
    return frames + events.event("response.output_item.done", output_index=place, item=whole), whole


def _input(arguments: str) -> str:
    """The text of a custom tool's call; all that the model wrote where it is not what the tool's function takes."""
    read = msgspec.json.decode(arguments)
    text = read.get(INPUT) if isinstance(read, dict) else None
    return text if isinstance(text, str) else arguments
