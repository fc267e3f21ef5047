"""One conversation, spoken in three protocols, comes to one row: the same tokens, sampling and constraint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.generation.messages import Submit
from actors.ids import RequestId
from tests.routes.harness import House, build, byte_tokenizer, connect
from tests.routes.templates import OPENED, THINK

SCHEMA: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [("weather", "Forecast."), ("take_note", "A note.")]
WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
ARGUMENTS = st.fixed_dictionaries({"city": WORDS})


@dataclass(frozen=True)
class Round:
    """What a user says, and what came of it."""

    question: str
    calls: Sequence[Sequence[tuple[str, dict[str, str], str]]]
    """Step by step: name, arguments and result of calls that were made together."""
    answer: str


@dataclass(frozen=True)
class Talk:
    """A conversation."""

    system: str | None
    rounds: Sequence[Round]
    question: str
    tools: int
    """How many of `TOOLS` it offers."""
    choice: str
    """`auto`, `any`, or the name of one."""
    thinks: bool | None
    options: dict[str, Any]
    """What all three call the same."""


CALL = st.tuples(st.sampled_from([name for name, _ in TOOLS]), ARGUMENTS, WORDS)
ROUND = st.builds(Round, WORDS, st.lists(st.lists(CALL, min_size=1, max_size=2), max_size=2), WORDS)
OPTIONS = st.fixed_dictionaries(
    {"temperature": st.sampled_from([0, 0.5]), "seed": st.integers(0, 9)},
    optional={
        "top_p": st.sampled_from([0.5, 0.9]),
        "top_k": st.integers(1, 9),
        "min_p": st.sampled_from([0.1]),
        "repetition_penalty": st.sampled_from([1.1]),
        "frequency_context_size": st.integers(0, 9),
        "xtc_probability": st.sampled_from([0.5]),
        "metadata": st.just({"user_id": "u"}),
    },
)
TALK = st.builds(
    Talk,
    st.none() | WORDS,
    st.lists(ROUND, max_size=2),
    WORDS,
    st.integers(0, 2),
    st.sampled_from(["auto", "any", "weather"]),
    st.sampled_from([None, False, True]),
    OPTIONS,
)


def names(talk: Talk) -> list[tuple[str, list[tuple[str, str, dict[str, str], str]]]]:
    """Ids for the calls of all rounds: question or answer, or the calls of one step."""
    count, found = 0, []
    for part in talk.rounds:
        found.append(("user:" + part.question, []))
        for step in part.calls:
            named = [(f"call_{count + index}", *call) for index, call in enumerate(step)]
            count += len(step)
            found.append(("calls", named))
        found.append(("assistant:" + part.answer, []))
    return [*found, ("user:" + talk.question, [])]


def in_chat(talk: Talk) -> dict[str, Any]:
    messages: list[Any] = [] if talk.system is None else [{"role": "system", "content": talk.system}]
    for words, calls in names(talk):
        if not calls:
            role, _, text = words.partition(":")
            messages.append({"role": role, "content": text})
            continue
        made = [
            {"id": name, "type": "function", "function": {"name": function, "arguments": json.dumps(arguments)}}
            for name, function, arguments, _ in calls
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": made})
        messages += [{"role": "tool", "tool_call_id": name, "content": result} for name, _, _, result in calls]
    body: dict[str, Any] = {"messages": messages, "max_tokens": 9, **talk.options}
    if talk.tools:
        functions = [{"name": name, "description": about, "parameters": SCHEMA} for name, about in TOOLS[: talk.tools]]
        body["tools"] = [{"type": "function", "function": function} for function in functions]
        named = {"type": "function", "function": {"name": talk.choice}}
        body["tool_choice"] = {"auto": "auto", "any": "required"}.get(talk.choice, named)
    return body if talk.thinks is None else {**body, "reasoning_effort": "medium" if talk.thinks else "none"}


def in_messages(talk: Talk) -> dict[str, Any]:
    messages: list[Any] = []
    for words, calls in names(talk):
        if not calls:
            role, _, text = words.partition(":")
            messages.append({"role": role, "content": [{"type": "text", "text": text}]})
            continue
        made = [
            {"type": "tool_use", "id": name, "name": function, "input": arguments}
            for name, function, arguments, _ in calls
        ]
        told = [{"type": "tool_result", "tool_use_id": name, "content": result} for name, _, _, result in calls]
        messages += [{"role": "assistant", "content": made}, {"role": "user", "content": told}]
    body: dict[str, Any] = {"messages": messages, "max_tokens": 9, **talk.options}
    if talk.system is not None:
        body["system"] = talk.system
    if talk.tools:
        offered = TOOLS[: talk.tools]
        body["tools"] = [{"name": name, "description": about, "input_schema": SCHEMA} for name, about in offered]
        named = {"type": "tool", "name": talk.choice}
        body["tool_choice"] = {"type": talk.choice} if talk.choice in ("auto", "any") else named
    return body if talk.thinks is None else {**body, "thinking": {"type": "adaptive" if talk.thinks else "disabled"}}


def in_responses(talk: Talk) -> dict[str, Any]:
    items: list[Any] = []
    for words, calls in names(talk):
        if not calls:
            role, _, text = words.partition(":")
            kind = "output_text" if role == "assistant" else "input_text"
            items.append({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
            continue
        items += [
            {"type": "function_call", "call_id": name, "name": function, "arguments": json.dumps(arguments)}
            for name, function, arguments, _ in calls
        ]
        items += [{"type": "function_call_output", "call_id": name, "output": result} for name, _, _, result in calls]
    body: dict[str, Any] = {"input": items, "max_output_tokens": 9, "store": False, **talk.options}
    if talk.system is not None:
        body["instructions"] = talk.system
    if talk.tools:
        offered = TOOLS[: talk.tools]
        body["tools"] = [
            {"type": "function", "name": name, "description": about, "parameters": SCHEMA} for name, about in offered
        ]
        named = {"type": "function", "name": talk.choice}
        body["tool_choice"] = {"auto": "auto", "any": "required"}.get(talk.choice, named)
    return body if talk.thinks is None else {**body, "reasoning": {"effort": "medium" if talk.thinks else "none"}}


async def row(house: House, path: str, body: dict[str, Any]) -> Submit:
    """The row that a request comes to, without its name and its session."""
    async with connect(house) as client:
        response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    return replace(house.generation.submitted.pop(), request_id=RequestId(""), session=None)


@pytest.mark.parametrize("template", [THINK, OPENED], ids=["think", "opened"])
@settings(max_examples=60, deadline=None)
@given(talk=TALK)
async def test_one_conversation_comes_to_one_row_in_every_protocol(template: str, talk: Talk) -> None:
    house = build(tokenizer=byte_tokenizer(template))
    house.says("Hello")
    chat = await row(house, "/v1/chat/completions", in_chat(talk))
    assert await row(house, "/v1/messages", in_messages(talk)) == chat
    assert await row(house, "/v1/responses", in_responses(talk)) == chat
