"""How many ingress replicas there should be. Pure; called by Serve's controller."""

from __future__ import annotations

import math
from typing import Any


def by_open_requests(context: Any, target: int) -> tuple[int, dict[str, Any]]:
    """Enough replicas for `target` open requests each, within the configured bounds.

    Args:
        context: Serve's AutoscalingContext; its raw metrics hold what `record_autoscaling_stats` returned.
        target: open requests a replica.
    """
    latest = context.raw_metrics.get("open_requests", {})
    open_requests = sum(_last(series) for series in latest.values())
    wanted = math.ceil(open_requests / target)
    bounds = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
    return max(bounds[0], min(bounds[1], wanted)), {}


def _last(series: Any) -> float:
    return float(series[-1].value) if series else 0.0
