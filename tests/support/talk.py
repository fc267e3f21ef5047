"""Talking to a server in raw HTTP, and waiting for what happens in its other processes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.support.waiting import eventually

CHAT = "/v1/chat/completions"
PATIENCE_S = 120.0

# Of the small server in tests/serving/conftest.py.
KEY = "sesame"
ORIGIN = "https://app.example"
BAD_TOKEN = "~"
ENDLESS = "story"
"""A question that its model answers with thousands of tokens, none of them poison."""
CHOKES = "one"
"""A question in whose answer the poison comes up after a while."""


class Stream:
    """The events of one answer, as they arrive."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.pieces: list[str] = []
        self.finish: str | None = None
        self.error: dict[str, Any] | None = None
        self.ended = False
        self._lines = response.aiter_lines()

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    async def piece(self) -> str:
        """The next piece of text; empty when the stream has ended without one."""
        async for line in self._lines:
            if not line.startswith("data: "):
                continue
            if line == "data: [DONE]":
                self.ended = True
                continue
            event = json.loads(line.removeprefix("data: "))
            self.error = event.get("error", self.error)
            for choice in event.get("choices", ()):
                self.finish = choice["finish_reason"] or self.finish
                text = choice["delta"].get("content") if "delta" in choice else choice["text"]
                if text:
                    self.pieces.append(text)
                    return text
        return ""

    async def read(self) -> str:
        """The whole text, once the stream has ended."""
        while await self.piece():
            continue
        return self.text


def chat_body(question: str, **options: Any) -> dict[str, Any]:
    """A greedy chat request."""
    return {"messages": [{"role": "user", "content": question}], "temperature": 0, **options}


@asynccontextmanager
async def streaming(http: httpx.AsyncClient, question: str, **options: Any) -> AsyncIterator[Stream]:
    """A chat that streams; leaving the block leaves the server."""
    async with http.stream("POST", CHAT, json=chat_body(question, stream=True, **options)) as response:
        assert response.status_code == 200, await response.aread()
        yield Stream(response)


async def say(http: httpx.AsyncClient, question: str, **options: Any) -> str:
    """The text of a whole answer."""
    response = await http.post(CHAT, json=chat_body(question, **options))
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"]


async def statistics(http: httpx.AsyncClient) -> dict[str, Any]:
    """Every actor's own figures; None for one that does not answer."""
    return (await http.get("/stats")).json()["troupe"]


async def scheduler(http: httpx.AsyncClient) -> dict[str, Any]:
    """The generation scheduler's figures."""
    figures = (await statistics(http))["scheduler"]
    assert figures is not None, "the scheduler does not answer"
    return figures


async def until_rows(http: httpx.AsyncClient, **wanted: int) -> dict[str, Any]:
    """Wait until the scheduler's figures are these."""

    async def settled() -> dict[str, Any] | None:
        figures = (await statistics(http))["scheduler"]
        return figures if figures and all(figures[name] == value for name, value in wanted.items()) else None

    return await eventually(settled)
