"""The checkpoints that are measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from actors.models import starter


@dataclass(frozen=True, slots=True)
class Subject:
    """A checkpoint and what is measured on it."""

    name: str
    folder: Path
    streams: tuple[int, ...]
    rows: int
    """Troupe's `generation.max_rows`; its queue takes the rest of a burst."""
    measures: tuple[str, ...]


MEASURES = {
    "starter": ("throughput", "idle", "stall", "joint", "prefix"),
    # A long prompt is nothing to the tiny model; what a burst does to the host shows best on it.
    "tiny": ("throughput", "idle", "burst"),
}
"""What says something about each."""


def subject(name: str, scratch: Path) -> Subject:
    """`starter` is fetched when it is missing; `tiny` is made in `scratch`.

    Raises:
        StartError: the starter model cannot be had.
    """
    if name == "starter":
        return Subject(name, starter.ensure("fp32"), (1, 4, 8), 8, MEASURES[name])
    from tests.support.checkpoints import host_bound

    return Subject(name, host_bound(scratch / "tiny"), (1, 8, 32), 32, MEASURES[name])
