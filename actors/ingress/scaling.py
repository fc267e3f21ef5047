"""How many ingress replicas there should be. Pure; called by Serve's controller."""

from __future__ import annotations

import math
from typing import Any


class ByOpenRequests:
    """Enough replicas for `target` open requests each, within the configured bounds. Serve makes one of a deployment.

    A class, because Serve hands the arguments of a policy to classes only.
    """

    def __init__(self, target: int) -> None:
        self._target = target

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """Replicas to have, and nothing to remember.

        Args:
            context: Serve's AutoscalingContext; its raw metrics hold what `record_autoscaling_stats` returned.
        """
        latest = context.raw_metrics.get("open_requests", {})
        open_requests = sum(_last(series) for series in latest.values())
        wanted = math.ceil(open_requests / self._target)
        bounds = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
        return max(bounds[0], min(bounds[1], wanted)), {}


def _last(series: Any) -> float:
    return float(series[-1].value) if series else 0.0
