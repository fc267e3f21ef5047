"""The SSD tier in /stats and /metrics, and its flush."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from actors.errors import CacheUnavailable
from actors.generation.messages import Flushed, SpillingStatistics
from actors.spill.messages import SpillStatistics
from routes.app import create_app
from tests.routes.figures import spill_statistics
from tests.routes.harness import build, connect

ON = {"ssd_cache": {"enabled": True, "flush_timeout_s": 7.5}}
FLUSH = "/admin/cache/flush"
SPILLING = SpillingStatistics(
    attached=True,
    pending_snapshots=3,
    pending_spill_bytes=99,
    spills=21,
    dropped_spills=4,
    failed_spills=5,
    missing_snapshots=1,
    restores=8,
    restored_tokens=800,
    restore_ms_last=12.34,
)


async def test_the_block_of_the_protocol_carries_the_figures_of_both_sides() -> None:
    house = build(ON)
    house.generation.spilling = SPILLING
    async with connect(house) as client:
        stats = (await client.get("/stats")).json()
        metrics = (await client.get("/metrics")).text
    assert stats["ssd_cache"] == {
        "dir": "/prefixes",
        "available": True,
        "problem": None,
        "entries": 12,
        "bytes": 3456,
        "max_bytes": 9000,
        "restores": 8,
        "spills": 21,
        "restore_ms_last": 12.3,
        "demotions": stats["troupe"]["prompt_cache"]["demotions"],
        "pending_snapshots": 3,
        "pending_spills": 2,
        "pending_spill_bytes": 99,
        "dropped_spills": 4,
        "failed_spills": 5,
        "longest_durable_prefix_tokens": 640,
    }
    assert stats["troupe"]["ssd_cache"] == dataclasses.asdict(await spill_statistics())
    assert stats["troupe"]["scheduler"]["spilling"] == dataclasses.asdict(SPILLING)
    assert "troupe_spilling_restores_total 8.0" in metrics
    assert "troupe_ssd_cache_written_bytes_total 3000.0" in metrics
    assert "troupe_ssd_cache_size 3456.0" in metrics


async def test_without_the_tier_the_block_is_absent_and_a_flush_has_nothing_to_do() -> None:
    house = build()
    async with connect(house) as client:
        stats = (await client.get("/stats")).json()
        response = await client.post(FLUSH)
        metrics = (await client.get("/metrics")).text
    assert "ssd_cache" not in stats
    assert "ssd_cache" not in metrics
    assert response.status_code == 200
    assert response.json() == {
        "durable": True,
        "flushedSnapshots": 0,
        "missingSnapshots": 0,
        "pendingSnapshots": 0,
        "pendingSpills": 0,
        "pendingSpillBytes": 0,
        "droppedSpills": 0,
        "failedSpills": 0,
        "elapsedMs": 0,
        "entries": 0,
        "longest_durable_prefix_tokens": 0,
    }


async def test_a_flush_that_did_everything_is_a_200() -> None:
    house = build(ON)
    house.generation.flushed = Flushed(attached=True, flushed_snapshots=6, elapsed_ms=842)
    async with connect(house) as client:
        response = await client.post(FLUSH)
    assert response.status_code == 200
    body = response.json()
    assert (body["durable"], body["flushedSnapshots"], body["elapsedMs"]) == (True, 6, 842)
    assert (body["entries"], body["longest_durable_prefix_tokens"]) == (12, 640)
    assert house.generation.flushes == [7.5]


@pytest.mark.parametrize(
    ("figures", "field"),
    [
        ({"pending_snapshots": 2, "pending_spill_bytes": 50}, "pendingSnapshots"),
        ({"missing_snapshots": 2}, "missingSnapshots"),
        ({"dropped_spills": 2}, "droppedSpills"),
        ({"failed_spills": 2}, "failedSpills"),
    ],
)
async def test_a_flush_that_left_something_is_a_503_with_the_figures(figures: dict[str, Any], field: str) -> None:
    house = build(ON)
    house.generation.flushed = Flushed(attached=True, **figures)
    async with connect(house) as client:
        response = await client.post(FLUSH)
    assert response.status_code == 503
    body = response.json()
    assert (body["durable"], body[field]) == (False, 2)
    assert body["pendingSpillBytes"] == figures.get("pending_spill_bytes", 0)


async def test_a_tier_that_is_configured_and_not_in_use_is_never_durable() -> None:
    async def locked() -> SpillStatistics:
        return dataclasses.replace(await spill_statistics(), available=False, problem="another server uses /prefixes")

    house = build(ON)
    house.generation.spilling = dataclasses.replace(SPILLING, attached=False)
    house.app = create_app(dataclasses.replace(house.context, spill_statistics=locked))
    async with connect(house) as client:
        response = await client.post(FLUSH)
        stats = (await client.get("/stats")).json()["ssd_cache"]
    assert response.status_code == 503
    assert response.json()["problem"] == stats["problem"] == "another server uses /prefixes"
    assert stats["available"] is False


async def test_a_scheduler_or_a_writer_that_is_away_is_said_in_words() -> None:
    async def broken() -> SpillStatistics:
        raise CacheUnavailable("the SSD writer does not answer; try again")

    house = build(ON)
    house.app = create_app(dataclasses.replace(house.context, spill_statistics=broken))
    async with connect(house) as client:
        writerless = await client.post(FLUSH)
        assert (await client.get("/stats")).json()["ssd_cache"] is None
        house.generation.down = True
        alone = await client.post(FLUSH)
    assert writerless.status_code == 503
    assert writerless.json()["error"]["message"] == "the SSD writer does not answer; try again"
    assert alone.status_code == 502
    assert alone.json()["error"]["type"] == "engine_unavailable"


async def test_a_flush_is_for_those_who_may_administer() -> None:
    house = build({**ON, "server": {"api_key": "sesame-sesame"}})
    async with connect(house) as client:
        assert (await client.post(FLUSH)).status_code == 401
        assert (await client.get(FLUSH, headers={"authorization": "Bearer sesame-sesame"})).status_code == 405
