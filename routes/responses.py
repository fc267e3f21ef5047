"""POST /v1/responses."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from actors.errors import NotFound, StoreUnavailable
from actors.ids import RequestId, response_id
from actors.responses.client import ResponseStoreClient
from actors.responses.messages import Keep, Kept, Turn
from routes.context import AppContext
from routes.conversation import chat_prompt
from routes.generation import Protocol
from routes.order import Order
from routes.prompt import Prompt
from routes.references import dereferenced
from routes.response_shape import ResponseShape
from routes.schema.chat import ChatCompletion, template_variables
from routes.schema.fields import Body
from routes.schema.response_items import Item, conversation, named
from routes.schema.response_tools import read_response_tools
from routes.schema.responses import ResponseRequest, read_response_request
from routes.truncation import truncated
from routes.wire import json_bytes

log = logging.getLogger("troupe.routes")


@dataclass(frozen=True, slots=True)
class Past:
    """What an earlier response brings along."""

    items: tuple[Item, ...] = ()
    """Input and output of all turns, in order."""
    instructions: str | None = None
    """Of the last turn."""


class _Answer:
    """One request under way: makes the shape of its response, and keeps it when it is complete."""

    def __init__(
        self,
        store: ResponseStoreClient,
        asked: ResponseRequest,
        past: Past,
        told: Mapping[str, object],
        custom: frozenset[str],
    ) -> None:
        self._store = store
        self._asked = asked
        self._past = past
        self._told = told
        self._custom = custom
        self._shape: ResponseShape | None = None

    def shape(self, response_id: str, model: str, created: int) -> ResponseShape:
        self._shape = ResponseShape(response_id, model, created, self._told, self._custom)
        return self._shape

    async def keep(self) -> None:
        """Store the response. The answer is worth more than its place in the store, so a failure is only logged."""
        assert self._shape is not None and self._shape.response is not None
        response = self._shape.response
        name, previous = RequestId(str(response["id"])), self._asked.previous
        turn = Turn(_input(self._asked.input), json_bytes(response))
        items = tuple(str(item["id"]) for item in self._shape.output)
        try:
            kept = await self._store.keep(Keep(name, RequestId(previous) if previous else None, turn, items))
            if kept is Kept.ORPHANED:
                # The response it continues is gone since, so this one carries the whole conversation itself.
                turn = Turn(_input([*self._past.items, *self._asked.input]), turn.response)
                kept = await self._store.keep(Keep(name, None, turn, items))
        except StoreUnavailable:
            return
        if kept is not Kept.STORED:
            log.warning("%s is not stored: %s", name, kept.value)


async def resumed(store: ResponseStoreClient, previous: str | None) -> Past:
    """What `previous_response_id` stands for.

    Raises:
        NotFound: no such response, or not any more.
        StoreUnavailable: the store does not answer.
    """
    if previous is None:
        return Past()
    turns = await store.thread(RequestId(previous))
    if turns is None:
        raise NotFound(f"previous response with id '{previous}' not found")
    items: list[Item] = []
    instructions: str | None = None
    for turn in turns:
        response = msgspec.json.decode(turn.response, type=dict[str, object])
        output, words = response["output"], response["instructions"]
        assert isinstance(output, list)
        items += [*msgspec.json.decode(turn.input, type=list[dict[str, object]]), *output]
        instructions = words if isinstance(words, str) else None
    return Past(tuple(items), instructions)


async def _read(context: AppContext, body: Body, headers: Mapping[str, str]) -> Order:
    asked = read_response_request(body, headers)
    past = await resumed(context.responses, asked.previous)
    asked = replace(asked, input=await dereferenced(context.responses, asked.input, past.items))
    items = (*past.items, *asked.input)
    instructions = past.instructions if asked.instructions is None else asked.instructions
    tools = read_response_tools(body, _added_tools(items))
    chat = ChatCompletion(
        messages=conversation(items, instructions, context.card.model_id),
        template_variables=template_variables(body, asked.effort),
        reasoning_effort=asked.effort,
        toolbox=tools.toolbox,
        generation=asked.generation,
    )
    told = {
        **asked.told,
        "instructions": instructions,
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "tool_choice": tools.choice,
        "tools": tools.listed,
    }
    answer = _Answer(context.responses, asked, past, told, tools.custom)

    def prompt(words: str | None) -> Prompt:
        return truncated(context, chat, words) if asked.truncate else chat_prompt(context, chat, words)

    return Order(prompt, asked.generation, answer.shape, answer.keep if asked.store else None)


def _added_tools(items: Sequence[Item]) -> list[object]:
    """Tools that came in the midst of a conversation."""
    added = [item.get("tools") for item in items if item["type"] == "additional_tools"]
    return [tool for tools in added if isinstance(tools, list) for tool in tools]


def _input(items: Sequence[Item]) -> bytes:
    return json_bytes([named(item) for item in items])


RESPONSES = Protocol(response_id, _read)
"""The way of every response."""
