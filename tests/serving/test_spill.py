"""Prefixes that outlive a real server: restarts, kills, and two servers on one directory."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.support.server import Server, run_server
from tests.support.talk import CHAT, eventually, streaming

SYSTEM = "You are the keeper of a lighthouse on a small island in the north. " * 8
QUESTION = "What do you see in the morning?"
FLUSH = "/admin/cache/flush"


@asynccontextmanager
async def serving(folder: Path, launcher: str = "serve") -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """A server on the starter whose SSD tier is in `folder`, and a client of it."""
    with run_server({"ssd_cache": {"dir": str(folder)}}, launcher=launcher) as server:
        async with server.http() as http:
            yield server, http


def conversation(*turns: str) -> dict[str, Any]:
    """Questions and answers by turns, behind a long system prompt; greedy."""
    roles = ["user", "assistant"] * len(turns)
    messages = [{"role": "system", "content": SYSTEM}]
    messages += [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=False)]
    return {"messages": messages, "temperature": 0, "max_tokens": 24}


async def ask(http: httpx.AsyncClient, body: dict[str, Any]) -> tuple[str, int]:
    """The answer's text, and how many tokens of the prompt were not computed."""
    response = await http.post(CHAT, json=body)
    assert response.status_code == 200, response.text
    reply = response.json()
    cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
    return reply["choices"][0]["message"]["content"], cached


async def ssd(http: httpx.AsyncClient) -> dict[str, Any]:
    return (await http.get("/stats")).json()["ssd_cache"]


async def durable(http: httpx.AsyncClient) -> dict[str, Any]:
    """The figures, once nothing is pending; nobody asks for a flush."""

    async def settled() -> dict[str, Any] | None:
        figures = await ssd(http)
        return figures if figures and figures["pending_snapshots"] == 0 and figures["spills"] else None

    return await eventually(settled)


async def answered(http: httpx.AsyncClient) -> bool:
    """Whether the server answers again: right after a death it may still take the dead one for alive."""
    return (await http.post(CHAT, json=conversation("Hello?") | {"max_tokens": 1})).status_code == 200


def slay(server: Server) -> None:
    """SIGKILL for every process of the server at once."""
    for process in server.family():
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


async def test_a_prefix_survives_a_stop_and_a_kill_and_gives_the_same_answers(tmp_path: Path) -> None:
    first = conversation(QUESTION)
    async with serving(tmp_path, "troupe") as (server, http):
        cold, cached = await ask(http, first)
        assert cached == 0
        second = conversation(QUESTION, cold, "And at night?")
        warm, warm_cached = await ask(http, second)
        assert warm_cached > 100
        # Stopped at once: the launcher waits for the disk.
        server.process.terminate()
        assert server.process.wait(120) == 0
        assert "lost" not in server.log
    async with serving(tmp_path) as (server, http):
        assert (await ssd(http))["longest_durable_prefix_tokens"] > warm_cached
        again, cached = await ask(http, second)
        assert (again, cached >= warm_cached) == (warm, True)
        figures = await ssd(http)
        assert (figures["restores"], figures["dir"]) == (1, str(tmp_path))
        flushed = await http.post(FLUSH)
        assert (flushed.status_code, flushed.json()["durable"]) == (200, True)
        third = conversation(QUESTION, cold, "And at night?", again, "And in winter?")
        answer, _ = await ask(http, third)
        await durable(http)
        slay(server)
    async with serving(tmp_path) as (server, http):
        again, cached = await ask(http, third)
        assert (again, cached > warm_cached) == (answer, True)
        assert (await ask(http, first))[0] == cold


async def test_kills_at_random_moments_never_give_a_wrong_answer(tmp_path: Path) -> None:
    moment = random.Random(4)
    expected: dict[str, str] = {}
    async with serving(tmp_path / "reference") as (server, http):
        for number in range(6):
            question = f"Tell me {number} things about the sea."
            expected[question], _ = await ask(http, conversation(question))
    found = 0
    for _ in range(4):
        async with serving(tmp_path / "cache") as (server, http):
            figures = await ssd(http)
            assert figures["available"]
            found += figures["longest_durable_prefix_tokens"] > 0
            for question in moment.sample(sorted(expected), moment.randrange(1, 5)):
                text, _ = await ask(http, conversation(question))
                assert text == expected[question]
            async with streaming(http, f"Write {moment.random()} stories.", max_tokens=200) as stream:
                for _ in range(moment.randrange(1, 20)):
                    await stream.piece()
                slay(server)
    assert found >= 2
    async with serving(tmp_path / "cache") as (server, http):
        for question, text in expected.items():
            assert (await ask(http, conversation(question)))[0] == text
        assert (await http.get("/stats")).json()["troupe"]["ssd_cache"]["set_aside"] == 0


async def test_the_death_of_scheduler_or_writer_loses_nothing_durable(tmp_path: Path) -> None:
    first = conversation(QUESTION)
    async with serving(tmp_path) as (server, http):
        cold, _ = await ask(http, first)
        await durable(http)
        dead = server.actor("GenerationScheduler")
        dead.kill()
        dead.wait(60)
        await eventually(lambda: answered(http))
        again, cached = await ask(http, conversation(QUESTION, cold, "Why?"))
        assert cached > 100
        assert (await ask(http, first))[0] == cold
        server.actor("SpillWriter").kill()
        other, _ = await ask(http, conversation("Who are you?"))

        async def flushed() -> bool:
            return (await http.post(FLUSH)).status_code == 200

        assert await eventually(flushed)
        assert (await ask(http, conversation("Who are you?")))[0] == other
        assert (await ask(http, conversation(QUESTION, cold, "Why?")))[0] == again


async def test_a_second_server_on_the_directory_serves_without_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, mine), serving(tmp_path) as (second, theirs):
        text, _ = await ask(mine, conversation(QUESTION))
        assert (await ask(theirs, conversation(QUESTION)))[0] == text
        figures = await ssd(theirs)
        assert (figures["available"], figures["problem"]) == (False, f"another server uses {tmp_path}")
        assert f"ssd cache: not in use: another server uses {tmp_path}" in second.log
        assert (await theirs.post(FLUSH)).status_code == 503
        assert (await mine.post(FLUSH)).status_code == 200
