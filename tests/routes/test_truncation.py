"""Conversations longer than an enforced context limit."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.routes.harness import House, build, byte_tokenizer, connect, unpack
from tests.routes.scripted_generation import description
from tests.routes.templates import TOOLS

LIMIT = 400


def house(limit: int | None = LIMIT) -> House:
    built = build(tokenizer=byte_tokenizer(TOOLS))
    built.generation.described = description(context_limit=limit, vocabulary=300)
    built.says("ok")
    return built


def items(count: int, size: int = 40) -> list[dict[str, Any]]:
    """Turns of a user who asks, and of a model that calls and answers."""
    found: list[dict[str, Any]] = []
    for number in range(count):
        found += [
            {"role": "user", "content": f"question {number} ".ljust(size, ".")},
            {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": f"result {number}"},
        ]
    return [*found, {"role": "user", "content": "last"}]


async def post(house: House, given: list[dict[str, Any]], **fields: object) -> httpx.Response:
    async with connect(house) as client:
        return await client.post("/v1/responses", json={"input": given, "instructions": "Be kind.", **fields})


def prompt(house: House) -> str:
    return house.context.tokenizer.decode(unpack(house.row.prompt))


@pytest.mark.parametrize("count", [3, 4, 5, 9, 30])
async def test_the_oldest_turns_go_and_calls_keep_their_results(count: int) -> None:
    server = house()
    assert (await post(server, items(count), truncation="auto", max_output_tokens=20)).status_code == 200
    text = prompt(server)
    assert len(unpack(server.row.prompt)) <= LIMIT - 20
    assert text.startswith("<|start|>system:Be kind.<|end|><|start|>user:")
    assert text.endswith("<|start|>user:last<|end|><|start|>assistant:")
    assert text.count("question") == text.count("<tool_call>") == text.count("result") == 3
    assert f"question {count - 1}" in text


async def test_a_conversation_that_fits_is_left_as_it_is() -> None:
    cut, whole = house(100_000), house(None)
    await post(cut, items(9), truncation="auto")
    await post(whole, items(9), truncation="auto")
    assert cut.row.prompt == whole.row.prompt


async def test_what_is_too_long_by_itself_is_refused_all_the_same() -> None:
    server = house()
    response = await post(server, [*items(3), {"role": "user", "content": "x" * LIMIT}], truncation="auto")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "context_over_budget")


@pytest.mark.parametrize("fields", [{}, {"truncation": "disabled"}])
async def test_nothing_is_cut_unasked(fields: dict[str, object]) -> None:
    server = house()
    response = await post(server, items(30), **fields)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "context_over_budget")
