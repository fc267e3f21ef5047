"""Several replicas of the transcriber as one: what they did added up, and what any of them has. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from actors.ids import Incarnation
from actors.transcription.messages import TranscriptionStatistics, Unloaded


def together(told: Sequence[TranscriptionStatistics]) -> TranscriptionStatistics:
    """The figures of all.

    Args:
        told: by each replica; at least one. What one has told twice counts once, as it told it last.
    """
    told = list({one.incarnation: one for one in told}.values())
    return TranscriptionStatistics(
        incarnation=Incarnation(""),
        resident=any(one.resident for one in told),
        weight_bytes=sum(one.weight_bytes for one in told),
        loads=sum(one.loads for one in told),
        unloads=sum(one.unloads for one in told),
        requests=sum(one.requests for one in told),
        last_load_ms=max(one.last_load_ms for one in told),
        idle_unload_sec=told[0].idle_unload_sec,
        open_requests=sum(one.open_requests for one in told),
        waiting_clips=sum(one.waiting_clips for one in told),
        finished_requests=sum(one.finished_requests for one in told),
        cancelled_requests=sum(one.cancelled_requests for one in told),
        failed_requests=sum(one.failed_requests for one in told),
        windows=sum(one.windows for one in told),
        audio_s=sum(one.audio_s for one in told),
        lease_wait_s=sum(one.lease_wait_s for one in told),
        lease_hold_s=sum(one.lease_hold_s for one in told),
    )


def unloaded(told: Sequence[Unloaded]) -> Unloaded:
    """Whether any gave weights up, and the state of all afterwards."""
    return Unloaded(any(one.unloaded for one in told), together([one.statistics for one in told]))
