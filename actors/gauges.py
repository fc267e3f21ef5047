"""Every number of an actor's statistics as a Ray metric, `ray_troupe_<actor>_<figure>`, for the Ray dashboard.

The ingress serves the same numbers at /metrics, so that they can be scraped without Ray's own endpoint.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from ray.util.metrics import Gauge

log = logging.getLogger("troupe.gauges")

PERIOD_S = 5.0


def figures(record: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Names and values of the numbers in a dataclass, nested ones joined by `_`. Text is left out."""
    for field in dataclasses.fields(record):
        yield from _figure(f"{prefix}{field.name}", getattr(record, field.name))


def _figure(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool | int | float):
        yield name, float(value)
    elif dataclasses.is_dataclass(value):
        yield from figures(value, f"{name}_")
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _figure(f"{name}_{key}", part)


class Gauges:
    """Publishes an actor's statistics every few seconds until `close`.

    Args:
        actor: snake_case name of the actor.
        statistics: answers with the actor's statistics record.
    """

    def __init__(self, actor: str, statistics: Callable[[], Awaitable[Any]]) -> None:
        self._actor = actor
        self._statistics = statistics
        self._gauges: dict[str, Gauge] = {}
        self._task = asyncio.ensure_future(self._run())

    def close(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                for name, value in figures(await self._statistics()):
                    self._gauge(name).set(value)
            except Exception as error:
                log.warning("the statistics of %s could not be published: %s", self._actor, error)
            await asyncio.sleep(PERIOD_S)

    def _gauge(self, name: str) -> Gauge:
        gauge = self._gauges.get(name)
        if gauge is None:
            description = f"{name.replace('_', ' ')} of Troupe's {self._actor.replace('_', ' ')}"
            gauge = self._gauges[name] = Gauge(f"troupe_{self._actor}_{name}", description)
        return gauge
