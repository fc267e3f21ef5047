"""The SSD tier of the prompt cache over HTTP: POST /admin/cache/flush, and its part of GET /stats."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from actors.generation.messages import Flushed
from routes.context import AppContext
from routes.snapshot import Snapshot
from routes.wire import json_response


class FlushRoute:
    """Makes stored prefixes durable now."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def flush(self, request: Request) -> Response:
        """200 when every stored prefix is durable, 503 with the figures that say why not.

        Raises EngineUnavailable while the scheduler is away. May be repeated.
        """
        context = self._context
        flushed = await context.flush(context.settings.ssd_cache.flush_timeout_s)
        writer = await context.spill_statistics() if context.settings.ssd_cache.enabled else None
        durable = is_durable(flushed, enabled=context.settings.ssd_cache.enabled)
        body: dict[str, object] = {
            "durable": durable,
            "flushedSnapshots": flushed.flushed_snapshots,
            "missingSnapshots": flushed.missing_snapshots,
            "pendingSnapshots": flushed.pending_snapshots,
            "pendingSpills": writer.pending_records if writer else 0,
            "pendingSpillBytes": flushed.pending_spill_bytes,
            "droppedSpills": flushed.dropped_spills,
            "failedSpills": flushed.failed_spills,
            "elapsedMs": flushed.elapsed_ms,
            "entries": writer.entries if writer else 0,
            "longest_durable_prefix_tokens": writer.longest_prefix_tokens if writer else 0,
        }
        if writer is not None and writer.problem is not None:
            body["problem"] = writer.problem
        return json_response(body, status=200 if durable else 503)


def is_durable(flushed: Flushed, *, enabled: bool) -> bool:
    """Whether a flush did all that there was to do."""
    lacking = (
        flushed.missing_snapshots,
        flushed.pending_snapshots,
        flushed.dropped_spills,
        flushed.failed_spills,
    )
    return not any(lacking) and (flushed.attached or not enabled)


def ssd_cache(snapshot: Snapshot) -> dict[str, object] | None:
    """The section of /stats; None while the writer or the scheduler does not answer."""
    writer, scheduler, cache = snapshot.ssd_cache, snapshot.scheduler, snapshot.prompt_cache
    if writer is None or scheduler is None or scheduler.spilling is None:
        return None
    ours = scheduler.spilling
    return {
        "dir": writer.directory,
        "available": writer.available and ours.attached,
        "problem": writer.problem,
        "entries": writer.entries,
        "bytes": writer.size,
        "max_bytes": writer.max_size,
        "restores": ours.restores,
        "spills": ours.spills,
        "restore_ms_last": round(ours.restore_ms_last, 1),
        "demotions": cache.demotions if cache else None,
        "pending_snapshots": ours.pending_snapshots,
        "pending_spills": writer.pending_records,
        "pending_spill_bytes": ours.pending_spill_bytes,
        "dropped_spills": ours.dropped_spills,
        "failed_spills": ours.failed_spills,
        "longest_durable_prefix_tokens": writer.longest_prefix_tokens,
    }
