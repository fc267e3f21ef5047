"""POST /v1/messages: how much thinking a budget allows, and who is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.generation.grammar.constraint import Budget
from tests.routes.messaging import house, message, post
from tests.routes.templates import HARMONY, HARMONY_TOKENS, OPENED


@pytest.mark.parametrize("thinking", [None, {"type": "disabled"}, {"type": "adaptive"}])
async def test_without_a_budget_nothing_is_bound(thinking: object) -> None:
    server = house(OPENED)
    server.says("x")
    await message(server, thinking=thinking)
    assert server.row.constraint is None
    assert server.prompt.endswith("<think></think>" if thinking == {"type": "disabled"} else "<think>\n")


async def test_a_budget_goes_to_the_scheduler() -> None:
    server = house(OPENED)
    server.says("x")
    await message(server, thinking={"type": "enabled", "budget_tokens": 9})
    closing = tuple(server.context.tokenizer.encode_bare("\n</think>"))
    assert server.row.constraint is not None
    assert server.row.constraint.kind == "free"
    assert server.row.constraint.budget == Budget(9, "<think>", "</think>", closing, opened=True, anywhere=False)


async def test_a_budget_in_channels_counts_wherever_they_begin() -> None:
    server = house(HARMONY, *HARMONY_TOKENS)
    server.says("x")
    await message(server, thinking={"type": "enabled", "budget_tokens": 9})
    budget = server.row.constraint and server.row.constraint.budget
    assert budget is not None
    assert (budget.start, budget.end, budget.opened) == ("<|channel|>analysis<|message|>", "<|end|>", False)
    assert budget.anywhere


async def test_a_budget_that_cannot_be_kept_is_told() -> None:
    server = house(generation={"grammar": {"enabled": False}})
    server.says("x")
    response = await post(server, thinking={"type": "enabled", "budget_tokens": 9})
    assert response.headers["warning"].startswith("thinking budget not enforced:")
    assert server.row.constraint is None


async def test_a_budget_stays_where_a_format_cannot_be_had() -> None:
    server = house()
    server.says("x")
    refused: list[str] = []

    async def compile(constraint: Any) -> str | None:
        refused.append(constraint.kind)
        return "too large" if constraint.kind == "json_schema" else None

    server.generation.compile = compile
    wanted = {"type": "json_schema", "schema": {"type": "object"}}
    response = await post(server, thinking={"type": "enabled", "budget_tokens": 9}, output_config={"format": wanted})
    assert response.headers["warning"] == "grammar not enforced: too large"
    assert refused == ["json_schema", "free"]
    constraint = server.row.constraint
    assert constraint is not None
    assert constraint.kind == "free" and constraint.budget is not None
