"""How many replicas of the transcriber there should be. Pure; called by Serve's controller.

They follow open sessions. Serve stops the newest replicas of a machine first, so there are never fewer wanted than it
takes for those to be idle. Should one with sessions be stopped all the same, they go on elsewhere (spool.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SESSIONS, STARTED, NODE = "sessions", "started", "node"
"""What each replica tells the autoscaler."""


@dataclass(frozen=True, slots=True)
class Load:
    """One replica."""

    sessions: float
    """Open sessions."""
    started: float
    """When it started, in seconds since the epoch."""
    node: float
    """A number of its machine."""


class ByOpenSessions:
    """Enough replicas for `target` open sessions each, within the configured bounds. Serve makes one of a deployment.

    A class, because Serve hands the arguments of a policy to classes only.
    """

    def __init__(self, target: int) -> None:
        self._target = target

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """Replicas to have, and nothing to remember.

        Args:
            context: Serve's AutoscalingContext; its raw metrics hold what `record_autoscaling_stats` returned.
        """
        bounds = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
        loads = [_load(context.raw_metrics, replica) for replica in context.running_replicas]
        return wanted(loads, context.target_num_replicas, self._target, bounds), {}


def wanted(loads: Sequence[Load | None], current: int, target: int, bounds: tuple[int, int]) -> int:
    """Replicas to have.

    Args:
        loads: of the running replicas; None for one that has not told anything yet.
        current: replicas that there should be now.
        target: open sessions a replica.
        bounds: fewest and most.
    """
    known = [load for load in loads if load is not None]
    enough = math.ceil(sum(load.sessions for load in known) / target)
    number = max(bounds[0], min(bounds[1], enough))
    if number >= current:
        return number
    if len(known) < len(loads) or len(loads) < current:
        return current  # somebody is just starting, and may have sessions already
    return max(number, current - _spare(known))


def _spare(loads: Sequence[Load]) -> int:
    """How many replicas can be stopped, whichever of them Serve takes: the newest ones without sessions."""
    if len({load.node for load in loads}) > 1:
        return len(loads) if not any(load.sessions for load in loads) else 0
    spare = 0
    for load in sorted(loads, key=lambda load: -load.started):
        if load.sessions:
            break
        spare += 1
    return spare


def _load(metrics: Mapping[str, Mapping[Any, Any]], replica: Any) -> Load | None:
    values = [_last(metrics.get(name, {}).get(replica)) for name in (SESSIONS, STARTED, NODE)]
    if None in values:
        return None
    sessions, started, node = (float(value) for value in values if value is not None)
    return Load(sessions, started, node)


def _last(series: Any) -> float | None:
    return float(series[-1].value) if series else None
