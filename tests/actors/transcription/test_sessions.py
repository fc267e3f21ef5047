"""The sessions of one replica, and of two that share a folder, with a listener that needs no model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.clock import FakeClock
from actors.errors import GenerationFailed, UndecodableAudio
from actors.session_settings import SessionSettings
from actors.transcription.budget import AudioBudget
from actors.transcription.clip import Clip
from actors.transcription.listener import Prepared
from actors.transcription.options import TranscriptionOptions
from actors.transcription.session_messages import (
    AppendAudio,
    Discarded,
    DiscardSession,
    Elsewhere,
    Failure,
    Finished,
    FinishSession,
    FollowSession,
    Opened,
    OpenSession,
    Receipt,
)
from actors.transcription.sessions import Sessions
from actors.transcription.spool import SpoolFolder
from actors.transcription.vad import VoiceDetector
from actors.transcription.wav import Samples
from tests.support.waiting import until

OPEN = OpenSession(TranscriptionOptions(language="en"))


class Deaf:
    """A listener that hears nothing in any window, and says so."""

    def __init__(self) -> None:
        self.advanced = 0
        self.error: Exception | None = None
        self.budget = AudioBudget(2**30, 1)
        self.gate = asyncio.Event()
        self.gate.set()

    async def prepare(self, options: TranscriptionOptions) -> Prepared:
        return Prepared("deaf", 80, options, None, 0.0)

    def voice(self) -> VoiceDetector:
        raise AssertionError("no gate is asked for")

    def decode(self, data: bytes) -> Samples:
        raise UndecodableAudio("it is no audio")

    async def advance(self, clip: Clip, advanced: Callable[[], None]) -> None:
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        clip._take = _Over(clip)  # type: ignore[assignment]
        self.advanced += 1
        advanced()

    async def peek(self, clip: Clip) -> str:
        return f"{clip.samples} samples"


class _Over:
    """A take that has come to the end of what there is."""

    def __init__(self, clip: Clip) -> None:
        self.seek = clip.frames
        self.segments: list[Any] = []
        self.text = f"{clip.samples} samples"

    def next(self, ready: int, content: int, finished: bool) -> None:
        return None


class Replica:
    """One of several that share a folder."""

    def __init__(self, folder: Path, name: str, clock: FakeClock, **settings: Any) -> None:
        self.listener = Deaf()
        values = SessionSettings(**settings)
        self.sessions = Sessions(values, self.listener, SpoolFolder(folder, name), name, clock)

    async def open(self, message: OpenSession = OPEN) -> str:
        opened = await self.sessions.open_session(message)
        assert isinstance(opened, Opened), opened
        return opened.session_id

    async def append(self, name: str, count: int, number: int = 0, raw: bool = True) -> Receipt | Elsewhere | Failure:
        data = np.zeros(count, dtype="<f4").tobytes()
        return await self.sessions.append_audio(AppendAudio(name, number.to_bytes(16, "big"), data, raw))

    async def finish(self, name: str) -> Finished | Elsewhere | Failure:
        return await self.sessions.finish_session(FinishSession(name))


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Replica]:
    replica = Replica(tmp_path, "one", FakeClock())
    yield replica
    await replica.sessions.close()


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Replica]:
    replica = Replica(tmp_path, "two", FakeClock())
    yield replica
    await replica.sessions.close()


def samples(answer: object) -> int:
    assert isinstance(answer, Receipt), answer
    return answer.samples


def text(answer: object) -> str:
    assert isinstance(answer, Finished), answer
    return answer.transcript.text


async def test_a_chunk_that_is_sent_twice_counts_once(one: Replica) -> None:
    name = await one.open()
    assert samples(await one.append(name, 100, 1)) == 100
    assert samples(await one.append(name, 100, 1)) == 100
    assert samples(await one.append(name, 100, 2)) == 200


async def test_another_replica_goes_on_with_all_that_was_heard(one: Replica, two: Replica) -> None:
    name = await one.open()
    await one.append(name, 16_000, 1)
    assert await two.append(name, 10, 2) == Elsewhere("one")
    await one.sessions.close()
    assert samples(await two.append(name, 16_000, 1)) == 16_000, "the chunk is there already"
    assert samples(await two.append(name, 500, 2)) == 16_500
    assert text(await two.finish(name)) == "16500 samples"
    assert (await two.sessions.statistics()).resumed_sessions == 1


async def test_many_who_ask_for_a_session_take_it_over_once(one: Replica, two: Replica) -> None:
    name = await one.open()
    await one.append(name, 100, 1)
    await one.sessions.close()
    answers = await asyncio.gather(*(two.append(name, 10, number) for number in range(2, 7)))
    assert sorted(map(samples, answers)) == [110, 120, 130, 140, 150]
    assert (await two.sessions.statistics()).resumed_sessions == 1


async def test_a_replica_that_closes_leaves_a_session_that_was_finishing_to_another_one(
    one: Replica, two: Replica
) -> None:
    name = await one.open()
    await one.append(name, 16_000, 1)
    one.listener.gate.clear()
    finishing = asyncio.ensure_future(one.finish(name))
    await until(lambda: one.sessions._open[name].session.state == "finishing")
    await one.sessions.close()
    assert await finishing == Elsewhere("")
    assert text(await two.finish(name)) == "16000 samples"


async def test_finishing_goes_on_when_nobody_waits_for_it(one: Replica, tmp_path: Path) -> None:
    name = await one.open()
    await one.append(name, 16_000, 1)
    one.listener.gate.clear()
    finishing = asyncio.ensure_future(one.finish(name))
    await asyncio.sleep(0)
    finishing.cancel()
    await asyncio.wait([finishing])
    one.listener.gate.set()
    await until(lambda: not (tmp_path / name).exists())
    assert await one.finish(name) == Failure("Conflict", "the session is finished")
    assert one.sessions.count == 0


async def test_a_session_whose_window_fails_says_so_and_is_over(one: Replica, tmp_path: Path) -> None:
    name = await one.open()
    one.listener.error = GenerationFailed("the speech model failed: Boom")
    await one.append(name, 16_000, 1)
    assert await one.finish(name) == Failure("GenerationFailed", "the speech model failed: Boom")
    answer = await one.append(name, 16_000, 2)
    assert isinstance(answer, Failure)
    assert "begin a new one" in answer.message
    assert not (tmp_path / name).exists()


async def test_what_is_no_audio_changes_nothing(one: Replica) -> None:
    name = await one.open()
    answer = await one.append(name, 4, 1, raw=False)
    assert answer == Failure("UndecodableAudio", "it is no audio")
    assert samples(await one.append(name, 4, 2)) == 4


async def test_a_full_disk_is_told_and_changes_nothing(one: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    name = await one.open()
    with monkeypatch.context() as patch:

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr("os.pwrite", full)
        answer = await one.append(name, 4, 1)
    assert answer == Failure("StoreUnavailable", "the audio cannot be kept: No space left on device")
    assert samples(await one.append(name, 4, 1)) == 4


@pytest.mark.parametrize("raw", [True, False])
async def test_a_chunk_that_there_is_no_room_for_changes_nothing(one: Replica, raw: bool) -> None:
    name = await one.open()
    assert isinstance(await one.append(name, 16_000), Receipt)
    one.listener.budget = AudioBudget(1, 1)
    with one.listener.budget.counted(memoryview(b"1")):
        refused = await one.append(name, 16_000, 1, raw)
    assert isinstance(refused, Failure) and refused.error == "QueueFull"
    assert "again later" in refused.message
    taken = await one.append(name, 16_000, 1)
    assert isinstance(taken, Receipt) and taken.samples == 32_000


async def test_a_session_counts_as_long_as_it_is_open(one: Replica) -> None:
    name = await one.open()
    await one.append(name, 29 * 16_000)
    assert one.listener.budget.used == pytest.approx(29 * 100 * 80 * 4, rel=0.01)
    await one.finish(name)
    assert one.listener.budget.used == 0


async def test_who_follows_a_session_hears_of_its_end_once(one: Replica) -> None:
    name = await one.open()
    await one.append(name, 16_000)
    one.listener.gate.clear()
    finishing = asyncio.create_task(one.finish(name))
    following = asyncio.create_task(one.sessions.follow_session(FollowSession(name, 0, None, 60.0)))
    await asyncio.sleep(0.05)
    assert not following.done(), "there is no news while the rest is transcribed"
    one.listener.gate.set()
    assert isinstance(await finishing, Finished)
    assert await following == Failure("Conflict", "the session is finished")


async def test_a_session_that_fails_is_given_up_by_who_follows_it(one: Replica, tmp_path: Path) -> None:
    name = await one.open()
    await one.append(name, 16_000)
    one.listener.error = GenerationFailed("the model is broken")
    await one.append(name, 40 * 16_000, 1)
    told = await asyncio.wait_for(one.sessions.follow_session(FollowSession(name, 0, None, 60.0)), 10)
    assert told == Failure("GenerationFailed", "the model is broken")
    assert one.sessions.count == 0
    assert (await one.sessions.statistics()).failed_sessions == 1
    assert not (tmp_path / name).exists()


async def test_who_knows_more_than_the_replica_that_took_over_waits(one: Replica) -> None:
    name = await one.open()
    await one.append(name, 16_000)
    following = asyncio.create_task(one.sessions.follow_session(FollowSession(name, 40, "so far", 60.0)))
    await asyncio.sleep(0.05)
    assert not following.done()
    await one.sessions.discard_session(DiscardSession(name))
    assert await following == Failure("NotFound", "there is no such session")


async def test_a_discarded_session_leaves_nothing(one: Replica, tmp_path: Path) -> None:
    name = await one.open()
    await one.append(name, 16_000, 1)
    assert await one.sessions.discard_session(DiscardSession(name)) == Discarded()
    assert not (tmp_path / name).exists()
    assert await one.finish(name) == Failure("NotFound", "there is no such session")


async def test_idle_sessions_expire_and_followed_ones_do_not(tmp_path: Path) -> None:
    clock = FakeClock()
    one = Replica(tmp_path, "one", clock, idle_s=100.0)
    idle, followed = await one.open(), await one.open()
    clock.advance(60)
    await one.sessions.follow_session(FollowSession(followed, 0, None, 0.0))
    clock.advance(60)
    await one.sessions.sweep()
    assert await one.finish(idle) == Failure("Expired", "the session expired: it was idle for more than 100 s")
    assert text(await one.finish(followed)) == ""
    await one.sessions.close()


async def test_news_come_to_those_who_follow(one: Replica) -> None:
    name = await one.open(OpenSession(OPEN.options, partials=True))
    following = asyncio.ensure_future(one.sessions.follow_session(FollowSession(name, 0, None, 60.0)))
    await one.append(name, 16_000, 1)
    async with asyncio.timeout(30):
        news = await following
    assert isinstance(news, Receipt)
    assert news.partial == "16000 samples"


async def test_so_many_calls_may_wait_for_a_session_and_no_more(one: Replica) -> None:
    name = await one.open()
    answers = await asyncio.gather(*(one.append(name, 10, number) for number in range(1, 30)))
    kinds = {type(answer).__name__ for answer in answers}
    assert kinds == {"Receipt", "Failure"}
    refused = [answer for answer in answers if isinstance(answer, Failure)]
    assert {answer.error for answer in refused} == {"QueueFull"}
    taken = len(answers) - len(refused)
    assert samples(await one.append(name, 0, 99)) == taken * 10
