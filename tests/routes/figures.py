"""What the actors beside the scheduler say of themselves in the route tests: numbers that can be told apart."""

from __future__ import annotations

from actors.gpu_lease.messages import ClassStatistics, LeaseStatistics
from actors.prompt_cache.messages import CacheStatistics
from actors.spill.messages import SpillStatistics


async def spill_statistics() -> SpillStatistics:
    return SpillStatistics(
        directory="/prefixes",
        available=True,
        problem=None,
        entries=12,
        size=3456,
        max_size=9000,
        written_records=11,
        written_bytes=3000,
        pending_records=2,
        pending_bytes=200,
        failed_writes=1,
        refused_writes=0,
        set_aside=1,
        ssd_evictions=3,
        longest_prefix_tokens=640,
        mailbox_depth=0,
    )


async def cache_statistics() -> CacheStatistics:
    return CacheStatistics(
        entries=4,
        size=500,
        max_size=9000,
        hits=6,
        misses=7,
        hit_tokens=80,
        evictions=1,
        demotions=0,
        reclaimed=0,
        sessions=3,
        session_hits=2,
        session_misses=4,
        prefix_scans=11,
        pinned=2,
        mailbox_depth=0,
    )


async def lease_statistics() -> LeaseStatistics:
    waiting = ClassStatistics(waiting=1, grants=5, wait_s=0.5, oldest_wait_s=0.25, work_s=3.0)
    return LeaseStatistics(
        epoch=3,
        holder="generation:one",
        held_s=1.5,
        classes={"interactive": waiting},
        deaths=0,
        reserved_bytes=1000,
        budget_bytes=8000,
        mailbox_depth=1,
    )
