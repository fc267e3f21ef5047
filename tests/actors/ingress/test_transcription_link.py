"""What concerns all replicas of the transcriber: their figures, and the unloading of their weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.errors import EngineUnavailable
from actors.ids import Incarnation
from actors.ingress.transcription_link import TranscriptionLink
from actors.transcription.messages import TranscriptionStatistics, Unloaded
from actors.transcription.pinning import pinned
from actors.transcription.replicas import named

IDLE = TranscriptionStatistics(
    incarnation=Incarnation("idle"),
    resident=False,
    weight_bytes=0,
    loads=1,
    unloads=1,
    requests=3,
    last_load_ms=20.0,
    idle_unload_sec=60.0,
    open_requests=0,
    waiting_clips=0,
    waiting_bytes=0,
    finished_requests=3,
    cancelled_requests=0,
    failed_requests=0,
    windows=5,
    audio_s=12.0,
    lease_wait_s=0.1,
    lease_hold_s=1.0,
)
BUSY = replace(
    IDLE,
    incarnation=Incarnation("busy"),
    resident=True,
    weight_bytes=100,
    requests=4,
    last_load_ms=35.0,
    open_requests=1,
    audio_s=8.0,
)


class Replica:
    def __init__(self, state: TranscriptionStatistics) -> None:
        self.state = state

    async def statistics(self) -> TranscriptionStatistics:
        return self.state

    async def unload(self) -> Unloaded:
        had, self.state = self.state.resident, replace(self.state, resident=False, weight_bytes=0)
        return Unloaded(had, self.state)


class Gone:
    def __getattr__(self, name: str) -> Any:
        async def call() -> None:
            raise ConnectionError("it is gone")

        return call


class Routed:
    """A handle whose calls go where a pinning router sends them."""

    def __init__(self, replicas: dict[str, Any], session_id: str = "") -> None:
        self.replicas = replicas
        self.session_id = session_id

    def options(self, session_id: str = "", stream: bool = False) -> Routed:
        return Routed(self.replicas, session_id)

    def __getattr__(self, method: str) -> Any:
        assert self.session_id, "it may go to anybody"
        replica = self.replicas[pinned(self.session_id, list(self.replicas))]
        return type("Method", (), {"remote": staticmethod(getattr(replica, method))})


def link(replicas: dict[str, Any], *others: str) -> TranscriptionLink:
    """A link to replicas that take calls, and others that do not yet, or no more."""

    async def names() -> list[str]:
        return sorted([*replicas, *others])

    return TranscriptionLink(Routed(replicas), names)


async def test_figures_are_those_of_all_replicas() -> None:
    figures = await link({"a": Replica(IDLE), "b-1": Replica(BUSY)}).statistics()
    assert (figures.resident, figures.weight_bytes, figures.requests, figures.open_requests) == (True, 100, 7, 1)
    assert (figures.last_load_ms, figures.audio_s, figures.idle_unload_sec) == (35.0, 20.0, 60.0)


async def test_who_answers_for_a_replica_that_starts_or_goes_counts_once() -> None:
    figures = await link({"a": Replica(IDLE), "b": Replica(BUSY)}, "starts", "goes").statistics()
    assert (figures.requests, figures.weight_bytes, figures.incarnation) == (7, 100, "")
    answer = await link({"b": Replica(BUSY)}, "starts").unload()
    assert (answer.unloaded, answer.statistics.resident, answer.statistics.requests) == (True, False, 4)


async def test_all_replicas_unload() -> None:
    third = replace(BUSY, incarnation=Incarnation("third"))
    replicas = {"a": Replica(BUSY), "b": Replica(IDLE), "c": Replica(third)}
    answer = await link(replicas).unload()
    assert (answer.unloaded, answer.statistics.resident, answer.statistics.weight_bytes) == (True, False, 0)
    assert not any(replica.state.resident for replica in replicas.values())
    assert not (await link(replicas).unload()).unloaded


async def test_a_replica_that_is_going_is_left_out() -> None:
    assert (await link({"a": Replica(BUSY), "b": Gone()}).statistics()).requests == 4


async def test_nobody_who_answers_is_told_in_words() -> None:
    with pytest.raises(EngineUnavailable, match="does not answer"):
        await link({"a": Gone()}).statistics()


def test_replicas_are_found_by_their_names() -> None:
    names = [
        "SERVE_REPLICA::troupe#Transcription#bb",
        "SERVE_REPLICA::troupe#Transcription#aa",
        "SERVE_REPLICA::troupe#Ingress#cc",
        "SERVE_REPLICA::other#Transcription#dd",
        "GpuLease",
    ]
    listed = [{"name": name, "namespace": "serve"} for name in names]
    assert named("troupe", "Transcription", listed) == ["aa", "bb"]
