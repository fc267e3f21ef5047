"""Several replicas of the transcriber as one: what they did added up, and what any of them has. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from actors.ids import Incarnation
from actors.transcription.messages import TranscriptionStatistics, Unloaded

_NOT_ADDED = frozenset({"incarnation", "resident", "last_load_ms", "idle_unload_sec"})
"""Figures that are no amounts."""


def together(told: Sequence[TranscriptionStatistics]) -> TranscriptionStatistics:
    """The figures of all.

    Args:
        told: by each replica; at least one. What one has told twice counts once, as it told it last.
    """
    told = list({one.incarnation: one for one in told}.values())
    names = [field.name for field in fields(TranscriptionStatistics) if field.name not in _NOT_ADDED]
    added: dict[str, Any] = {name: sum(getattr(one, name) for one in told) for name in names}
    return replace(
        told[0],
        incarnation=Incarnation(""),
        resident=any(one.resident for one in told),
        last_load_ms=max(one.last_load_ms for one in told),
        **added,
    )


def unloaded(told: Sequence[Unloaded]) -> Unloaded:
    """Whether any gave weights up, and the state of all afterwards."""
    return Unloaded(any(one.unloaded for one in told), together([one.statistics for one in told]))
