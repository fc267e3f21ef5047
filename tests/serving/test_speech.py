"""Human speech through a real server, with the speech starter."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack

import httpx
import jiwer
import openai
import pytest

from tests.support.server import Server, run_server
from tests.support.sound import clip_files, needs_speech, transcripts
from tests.support.talk import statistics, streaming, until_rows
from tests.support.waiting import eventually

pytestmark = needs_speech

MOST_ERRORS = 0.2
"""Of the words; 6 % of them are wrong, as with mlx-whisper (tests/actors/transcription/test_word_errors.py)."""


def plain(text: str) -> str:
    """Words in small letters."""
    return " ".join(re.findall(r"[a-z']+", text.lower()))


@pytest.fixture(scope="module")
def speech() -> Iterator[Server]:
    with run_server({"transcription": {"model": "starter-whisper", "resident": True}}) as running:
        yield running


def test_people_are_understood(speech: Server) -> None:
    with speech.client() as client:
        heard = [client.audio.transcriptions.create(file=path, model="any").text for path in clip_files()]
    assert jiwer.wer(transcripts(), [plain(text) for text in heard]) < MOST_ERRORS


async def test_a_chat_and_a_transcription_share_the_machine(speech: Server) -> None:
    async with speech.async_client() as client:
        asking = asyncio.ensure_future(client.audio.transcriptions.create(file=clip_files()[0], model="any"))
        chat = await client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "Tell me about the sea."}], max_tokens=24, stream=True
        )
        deltas = [chunk async for chunk in chat]
        assert len(deltas) > 10
        assert "Dashwood" in (await asking).text
    lease = speech.statistics()["lease"]["classes"]["transcription"]
    assert lease["grants"] > 0 and lease["work_s"] > 0


async def test_eight_chats_and_a_transcription_get_their_shares(speech: Server) -> None:
    async def work() -> tuple[float, float]:
        classes = (await statistics(http))["lease"]["classes"]
        return classes["interactive"]["work_s"], classes["transcription"]["work_s"]

    async with speech.http() as http, speech.async_client() as client, AsyncExitStack() as stack:
        # The starter's end of turn is forbidden, so the rows last as long as the test.
        endless = {"max_tokens": 4000, "logit_bias": {"2": -100}}
        chats = [
            await stack.enter_async_context(streaming(http, f"Tell me story {number}.", **endless))
            for number in range(8)
        ]
        assert all([await chat.piece() for chat in chats])
        await until_rows(http, active_rows=8)
        over = asyncio.Event()

        async def listen() -> list[str]:
            texts: list[str] = []
            while not over.is_set():
                texts.append((await client.audio.transcriptions.create(file=clip_files()[0], model="any")).text)
            return texts

        # Two at a time, so that one always waits for the lease.
        listeners = [asyncio.create_task(listen()) for _ in range(2)]
        before = await work()

        async def contended() -> tuple[float, float] | None:
            chatted, heard = (now - then for now, then in zip(await work(), before, strict=True))
            return (chatted, heard) if heard > 4 else None

        chatted, heard = await eventually(contended, 100)
        over.set()
        texts = [text for texts in await asyncio.gather(*listeners) for text in texts]
        assert texts and all("Dashwood" in text for text in texts)
    # The weights say a third for speech. A window is one slice and much longer than the others', hence the room.
    assert 0.2 < heard / (heard + chatted) < 0.5


async def test_a_transcriber_that_is_killed_comes_back(speech: Server) -> None:
    speech.actor("Transcription").kill()
    async with speech.async_client() as client:
        for _ in range(600):
            try:
                answer = await client.audio.transcriptions.create(file=clip_files()[1], model="any")
                break
            except (openai.InternalServerError, httpx.HTTPError):
                await asyncio.sleep(0.2)
        else:
            raise AssertionError("it did not come back")
    assert "young man" in answer.text
