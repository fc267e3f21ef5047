from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from actors.errors import GenerationFailed
from actors.library.client import LibraryClient
from actors.library.messages import DecodeRate
from routes.app import create_app
from routes.gate import Gate
from routes.pace import LEAST_TOKENS, PERIOD_S
from tests.routes.call import Call, turns
from tests.routes.harness import House, build, chat, connect
from tests.support.handle import Handle


class Notebook:
    """A library that remembers what it was told."""

    def __init__(self) -> None:
        self.rates: list[DecodeRate] = []

    async def note_rate(self, rate: DecodeRate) -> None:
        self.rates.append(rate)


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture
def house(notebook: Notebook) -> House:
    """Every token of an answer takes a tenth of a second, the first one two seconds."""
    house = build()
    house.context = dataclasses.replace(house.context, library=LibraryClient(Handle(notebook)), gate=Gate())
    house.app = create_app(house.context)
    return house


def says(house: House, tokens: int, then: Sequence[Any] = ()) -> None:
    house.says(*("x" for _ in range(tokens)))
    plain: Callable[[Any], Any] = house.generation.script

    def script(submit: Any) -> Any:
        house.clock.advance(2.0)
        for step in plain(submit):
            yield step
            house.clock.advance(0.1)
        yield from then

    house.generation.script = script


async def test_a_lone_answer_tells_its_rate(house: House, notebook: Notebook) -> None:
    says(house, 40)
    async with connect(house) as client:
        await client.post("/v1/chat/completions", json=chat())
        await turns()
        (rate,) = notebook.rates
        assert rate.fingerprint == house.context.card.fingerprint
        # 40 tokens and an end token, of which the first is not counted, and a step before them that only says hello.
        assert rate.tokens_per_s == pytest.approx(10.0, rel=0.05)
        await client.post("/v1/chat/completions", json=chat())
        await turns()
        assert len(notebook.rates) == 1  # once a minute
        house.clock.advance(PERIOD_S)
        await client.post("/v1/chat/completions", json=chat())
        await turns()
    assert len(notebook.rates) == 2


@pytest.mark.parametrize("more", [{"n": 2}, {"model": None, "messages": []}])
async def test_what_says_nothing_of_one_row_is_not_told(house: House, notebook: Notebook, more: dict[str, Any]) -> None:
    says(house, 40)
    async with connect(house) as client:
        await client.post("/v1/chat/completions", json=chat() | more)
        await client.get("/v1/models")
    await turns()
    assert notebook.rates == []


async def test_short_and_broken_answers_are_not_told(house: House, notebook: Notebook) -> None:
    async with connect(house) as client:
        says(house, LEAST_TOKENS - 2)
        await client.post("/v1/chat/completions", json=chat())
        house.generation.script = lambda submit: iter([GenerationFailed("no")])
        await client.post("/v1/chat/completions", json=chat(stream=True))
    await turns()
    assert notebook.rates == []


async def test_a_request_in_company_is_not_told(house: House, notebook: Notebook) -> None:
    gone_on = asyncio.Event()
    house.generation.script = lambda submit: iter([gone_on])
    body = b'{"messages": [{"role": "user", "content": "hi"}]}'
    waiting = Call(house.app, "/v1/chat/completions", body)
    await house.generation.entered.wait()
    says(house, 40)
    async with connect(house) as client:
        await client.post("/v1/chat/completions", json=chat())
    await turns()
    waiting.leave()
    await waiting.task
    assert notebook.rates == []


async def test_a_library_that_is_away_costs_nothing(house: House) -> None:
    house.context = dataclasses.replace(house.context, library=LibraryClient(Handle(None)))
    house.app = create_app(house.context)
    says(house, 40)
    async with connect(house) as client:
        assert (await client.post("/v1/chat/completions", json=chat())).status_code == 200
    await turns()
