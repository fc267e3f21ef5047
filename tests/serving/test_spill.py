"""Prefixes that outlive a real server: restarts, kills, answers in the making, and two servers on one directory."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from actors.spill.codec import read_record
from tests.support.mortal import mortal
from tests.support.server import Server, run_server
from tests.support.talk import CHAT, Stream, scheduler, statistics
from tests.support.waiting import eventually

# Several servers are started one after the other; on a busy machine each takes a minute.
pytestmark = pytest.mark.timeout(900)

SYSTEM = "You are the keeper of a lighthouse on a small island in the north. " * 8
QUESTION = "What do you see in the morning?"
FLUSH = "/admin/cache/flush"
LIVES = 20


@asynccontextmanager
async def serving(folder: Path, launcher: str = "serve", **ssd: Any) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """A server on the starter whose SSD tier is in `folder`, and a client of it."""
    with run_server({"ssd_cache": {"dir": str(folder), **ssd}}, launcher=launcher) as server:
        async with server.http() as http:
            yield server, http


def conversation(*turns: str, **options: Any) -> dict[str, Any]:
    """Questions and answers by turns, behind a long system prompt; greedy."""
    roles = ["user", "assistant"] * len(turns)
    messages = [{"role": "system", "content": SYSTEM}]
    messages += [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=False)]
    return {"messages": messages, "temperature": 0, "max_tokens": 24, **options}


async def reply(http: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    response = await http.post(CHAT, json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def ask(http: httpx.AsyncClient, body: dict[str, Any]) -> tuple[str, int]:
    """The answer's text, and how many tokens of the prompt were not computed."""
    answer = await reply(http, body)
    return answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


async def ssd(http: httpx.AsyncClient) -> dict[str, Any]:
    return (await http.get("/stats")).json()["ssd_cache"]


async def durable(http: httpx.AsyncClient) -> dict[str, Any]:
    """The figures, once nothing is pending; nobody asks for a flush."""

    async def settled() -> dict[str, Any] | None:
        figures = await ssd(http)
        return figures if figures and figures["pending_snapshots"] == 0 and figures["spills"] else None

    return await eventually(settled)


async def flushed(http: httpx.AsyncClient) -> bool:
    return (await http.post(FLUSH)).status_code == 200


async def answered(http: httpx.AsyncClient) -> bool:
    """Whether the server answers again: right after a death it may still take the dead one for alive."""
    return (await http.post(CHAT, json=conversation("Hello?", max_tokens=1))).status_code == 200


def kill(server: Server, actor: str) -> None:
    """SIGKILL for one actor; returns when it is dead."""
    dead = server.actor(actor)
    dead.kill()
    dead.wait(60)


def slay(server: Server) -> None:
    """SIGKILL for every process of the server at once."""
    for process in server.family():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@asynccontextmanager
async def begun(http: httpx.AsyncClient, body: dict[str, Any]) -> AsyncIterator[Stream]:
    """An answer that is read in the background and may be cut off by a death."""
    async with http.stream("POST", CHAT, json={**body, "stream": True}) as response:
        assert response.status_code == 200, await response.aread()
        stream = Stream(response)
        reading = asyncio.create_task(stream.read())
        try:
            yield stream
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, httpx.HTTPError):
                await reading


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
        assert await flushed(http)
        third = conversation(QUESTION, cold, "And at night?", again, "And in winter?")
        answer, _ = await ask(http, third)
        await durable(http)
        slay(server)
    async with serving(tmp_path) as (server, http):
        again, cached = await ask(http, third)
        assert (again, cached > warm_cached) == (answer, True)
        assert (await ask(http, first))[0] == cold


async def answers_of_questions(http: httpx.AsyncClient) -> dict[str, str]:
    """Answers by question; computed from nothing, and again so that they are kept for all."""
    found: dict[str, str] = {}
    for number in range(2):
        question = f"Tell me {number} things about the sea."
        found[question], cached = await ask(http, conversation(question, cache_salt=question))
        assert cached == 0
        assert (await ask(http, conversation(question)))[0] == found[question]
    return found


async def test_kills_in_the_middle_of_writing_never_give_a_wrong_answer(tmp_path: Path) -> None:
    """Everybody in one process, because that dies and starts in seconds; killed between one file and the next."""
    moment = random.Random(4)
    records = tmp_path / "records"
    settings = {
        "ssd_cache": {"enabled": True, "dir": str(tmp_path), "block_tokens": 16},
        "generation": {"grammar": {"enabled": False}},
    }
    expected: dict[str, str] = {}
    for life in range(LIVES):
        with mortal(settings) as company:
            async with httpx.AsyncClient(base_url=company.url, timeout=120) as http:
                assert not list(records.glob("*.tmp"))
                if not life:
                    expected = await answers_of_questions(http)
                    assert await flushed(http)
                question = moment.choice(sorted(expected))
                answer, cached = await ask(http, conversation(question))
                assert (answer, cached > 100) == (expected[question], True)
                target = len(list(records.iterdir())) + moment.randrange(1, 8)

                async def far_enough(target: int = target) -> bool:
                    return len(list(records.iterdir())) >= target

                unknown = {
                    "messages": [{"role": "user", "content": f"{moment.random()} {SYSTEM * 3}"}],
                    "max_tokens": 40,
                }
                # Nobody knows this prompt: as soon as it is answered, all of it is to be written.
                async with begun(http, unknown):
                    await eventually(far_enough)
                    company.slay()
    with mortal(settings) as company:
        async with httpx.AsyncClient(base_url=company.url, timeout=120) as http:
            for question, text in expected.items():
                answer, cached = await ask(http, conversation(question))
                assert (answer, cached > 100) == (text, True)
            assert (await statistics(http))["ssd_cache"]["set_aside"] == 0


async def test_the_death_of_scheduler_or_writer_loses_nothing_durable_and_the_directory_is_not_shared(
    tmp_path: Path,
) -> None:
    first = conversation(QUESTION)
    async with serving(tmp_path) as (server, http):
        cold, _ = await ask(http, first)
        await durable(http)
        kill(server, "GenerationScheduler")
        await eventually(lambda: answered(http))
        again, cached = await ask(http, conversation(QUESTION, cold, "Why?"))
        assert cached > 100
        assert (await ask(http, first))[0] == cold
        kill(server, "SpillWriter")
        other, _ = await ask(http, conversation("Who are you?"))
        assert await eventually(lambda: flushed(http))
        assert (await ask(http, conversation("Who are you?")))[0] == other
        assert (await ask(http, conversation(QUESTION, cold, "Why?")))[0] == again
        async with serving(tmp_path) as (second, theirs):
            assert await ask(theirs, first) == (cold, 0)
            figures = await ssd(theirs)
            assert (figures["available"], figures["problem"]) == (False, f"another server uses {tmp_path}")
            assert f"ssd cache: not in use: another server uses {tmp_path}" in second.log
            assert not await flushed(theirs)
            assert await flushed(http)


def notes(folder: Path) -> dict[bytes, int]:
    """Tokens of each answer in the making that are on the disk."""
    found: dict[bytes, int] = {}
    for path in (folder / "records").glob("*.kv"):
        with contextlib.suppress(FileNotFoundError):  # superseded at this moment
            record = read_record(path)
            if record.kind == "note":
                found[record.after] = max(record.start, found.get(record.after, 0))
    return found


async def test_answers_in_the_making_go_on_after_kills_and_end_as_if_nothing_had_been(tmp_path: Path) -> None:
    story = [{"role": "user", "content": "Write a very long story about a lighthouse and the people who lived there."}]
    greedy = {"messages": story, "temperature": 0, "max_tokens": 160}
    seeded = {"messages": story, "temperature": 0.8, "seed": 7, "max_tokens": 160}
    bodies = (greedy, seeded)

    async def completed() -> bool:
        """Complete answers leave nothing."""
        return not notes(tmp_path)

    async def interrupted(server: Server, http: httpx.AsyncClient, progress: int, actor: str | None) -> list[str]:
        """What clients had read of both when a death came upon the server; both had come so far on the disk."""

        async def far_enough() -> bool:
            saved = notes(tmp_path)
            return len(saved) == 2 and min(saved.values()) >= progress

        async with begun(http, greedy) as one, begun(http, seeded) as other:
            await eventually(far_enough)
            if actor is None:
                slay(server)
            else:
                kill(server, actor)
            return [one.text, other.text]

    async with serving(tmp_path, checkpoint_tokens=8) as (server, http):
        # In a partition of their own, so that they help nobody.
        whole = await asyncio.gather(*(reply(http, {**body, "cache_salt": "aside"}) for body in bodies))
        texts = [answer["choices"][0]["message"]["content"] for answer in whole]
        await eventually(completed)
        read = await interrupted(server, http, 16, "GenerationScheduler")
        await eventually(lambda: answered(http))
        later = await interrupted(server, http, 48, None)
        for part, text in zip((*read, *later), (*texts, *texts), strict=True):
            assert part
            assert text[: len(part)] == part
            assert len(part) < len(text)
        saved = sum(notes(tmp_path).values())
    async with serving(tmp_path, checkpoint_tokens=8) as (server, http):
        again = await asyncio.gather(*(reply(http, body) for body in bodies))
        assert [answer["choices"][0]["message"]["content"] for answer in again] == texts
        for answer, before in zip(again, whole, strict=True):
            usage = answer["usage"]
            assert usage["completion_tokens"] == before["usage"]["completion_tokens"]
            # Of the prompt alone, although the disk had tokens of the answer too.
            assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"]
        generated = sum(answer["usage"]["completion_tokens"] for answer in again)
        assert (await scheduler(http))["generated_tokens"] == generated - saved

        await eventually(completed)
