"""Live transcription on Ray: what is said, what a killed replica costs, and how replicas follow sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from actors.models import starter_whisper
from actors.transcription.pinning import replica_of
from tests.support.server import Server, run_server
from tests.support.sound import Samples, clips, needs_speech, wav
from tests.support.waiting import eventually

URL = "/v1/audio/sessions"
RAW = {"content-type": "audio/pcm;rate=16000"}
REPLICA = "ServeReplica:troupe:Transcription"
PATIENCE_S = 240

pytestmark = needs_speech


@pytest.fixture(scope="module")
def speech() -> Iterator[Server]:
    arguments: dict[str, Any] = {
        "model": str(starter_whisper.ensure(progress=False)),
        "audio_sessions": {"target_sessions": 7, "max_replicas": 3, "downscale_delay_s": 1.0},
    }
    with run_server(arguments) as running:
        yield running


@pytest.fixture
def http(speech: Server) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=speech.url, timeout=PATIENCE_S)


async def begin(http: httpx.AsyncClient) -> str:
    answer = await http.post(URL, json={"temperature": 0, "vad": True})
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


async def begin_on_another(http: httpx.AsyncClient, taken: set[str]) -> str | None:
    """A session on a replica that is not among these; None when it came to one of them."""
    name = await begin(http)
    if replica_of(name) not in taken:
        return name
    await http.delete(f"{URL}/{name}")
    return None


async def append(http: httpx.AsyncClient, name: str, samples: Samples) -> dict[str, Any]:
    answer = await http.post(f"{URL}/{name}/audio", content=samples.astype("<f4").tobytes(), headers=RAW)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def finish(http: httpx.AsyncClient, name: str) -> str:
    answer = await http.post(f"{URL}/{name}/finish")
    assert answer.status_code == 200, answer.text
    return answer.json()["text"]


async def at_once(http: httpx.AsyncClient, samples: Samples) -> str:
    files = {"file": ("a.wav", wav(samples.astype("<f4").tobytes(), kind=3, bits=32))}
    answer = await http.post("/v1/audio/transcriptions", files=files, data={"temperature": "0"})
    assert answer.status_code == 200, answer.text
    return answer.json()["text"]


def long_take() -> Samples:
    """70 seconds of speech."""
    return np.concatenate([*clips(), *clips(), *clips(), *clips()])[: 70 * 16_000]


async def test_a_session_says_what_one_request_says_although_its_replica_is_killed(
    speech: Server, http: httpx.AsyncClient
) -> None:
    samples = long_take()
    rng = np.random.default_rng(5)
    pieces = np.split(samples, np.sort(rng.integers(0, len(samples), 20)))
    async with http:
        name = await begin(http)
        for piece in pieces[:12]:
            await append(http, name, piece)
        (victim,) = speech.actors(REPLICA)
        victim.kill()
        sent = sum(map(len, pieces[:13]))
        assert (await append(http, name, pieces[12]))["samples"] == sent
        for piece in pieces[13:]:
            await append(http, name, piece)
        assert await finish(http, name) == await at_once(http, samples)
        assert (await http.post(f"{URL}/{name}/finish")).status_code == 409


async def test_replicas_come_and_go_with_sessions_and_no_session_is_lost(
    speech: Server, http: httpx.AsyncClient
) -> None:
    """Three of the sessions speak; the others are silent, which the voice gate tells without Whisper."""
    said, silence = clips()[0], np.zeros(32_000, dtype=np.float32)
    takes = [said if number % 7 == 0 else silence for number in range(20)]

    async def replicas(number: int) -> bool:
        return len(speech.actors(REPLICA)) == number

    async def hear(names: list[str], half: int) -> None:
        parts = [np.array_split(take, 2)[half] for take in takes]
        await asyncio.gather(*(append(http, name, part) for name, part in zip(names, parts, strict=False)))

    async with http:
        wanted = await at_once(http, said)
        assert await eventually(lambda: replicas(1), PATIENCE_S)
        names = list(await asyncio.gather(*(begin(http) for _ in range(10))))
        assert await eventually(lambda: replicas(2), PATIENCE_S)
        names += await asyncio.gather(*(begin(http) for _ in range(10)))
        assert await eventually(lambda: replicas(3), PATIENCE_S)
        await hear(names, 0)
        late = await eventually(lambda: begin_on_another(http, {replica_of(name) for name in names}), PATIENCE_S)
        speech.actors(REPLICA)[0].kill()
        await hear(names, 1)
        texts = await asyncio.gather(*(finish(http, name) for name in names))
        assert texts == [wanted if take is said else "" for take in takes]
        assert await finish(http, late) == ""
        assert await eventually(lambda: replicas(1), PATIENCE_S)
