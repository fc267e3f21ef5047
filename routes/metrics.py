"""GET /metrics: the same figures for Prometheus, named troupe_<actor>_<figure>."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from actors.gpu_lease.messages import ClassStatistics, LeaseStatistics
from routes.context import AppContext
from routes.snapshot import Snapshot, take_snapshot

_RISING = frozenset(
    {
        "submitted_rows",
        "finished_rows",
        "cancelled_rows",
        "failed_rows",
        "finished_requests",
        "cancelled_requests",
        "requests",
        "loads",
        "unloads",
        "windows",
        "audio_s",
        "failed_requests",
        "texts",
        "text_tokens",
        "passes",
        "prompt_tokens",
        "cached_tokens",
        "generated_tokens",
        "steps",
        "lease_wait_s",
        "lease_hold_s",
        "hits",
        "misses",
        "hit_tokens",
        "evictions",
        "expirations",
        "grants",
        "wait_s",
        "work_s",
        "deaths",
        "admitted",
        "gone",
        "prepared",
        "refused",
        "scans",
        "finished_downloads",
        "failed_downloads",
        "written_records",
        "written_bytes",
        "failed_writes",
        "refused_writes",
        "set_aside",
        "ssd_evictions",
        "spills",
        "dropped_spills",
        "failed_spills",
        "restores",
        "restored_tokens",
    }
)
"""Figures that only rise during an actor's life; Prometheus wants `_total` behind them."""


class MetricsRoute:
    """Actors that do not answer are left out, and their troupe_<actor>_up is 0."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def show(self, request: Request) -> Response:
        snapshot = await take_snapshot(self._context)
        return Response(exposition(snapshot), headers={"content-type": CONTENT_TYPE_LATEST})


def exposition(snapshot: Snapshot) -> bytes:
    """One snapshot in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(snapshot))
    return generate_latest(registry)


class _Collector:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot
        for name in ("scheduler", "prompt_cache", "embedder", "ssd_cache"):
            if name not in snapshot.absent:
                yield from _actor(name, getattr(snapshot, name))
        if snapshot.scheduler is not None and snapshot.scheduler.spilling is not None:
            yield from _figures("spilling", asdict(snapshot.scheduler.spilling), {})
        yield from _actor("lease", snapshot.lease)
        yield from _actor("response_store", snapshot.response_store)
        yield from _actor("library", snapshot.library)
        if snapshot.lease is not None:
            yield from _lease_classes(snapshot.lease)
        ingress = snapshot.ingress
        label = {"replica": ingress.replica}
        yield from _figures("ingress", asdict(ingress.gate), label)
        yield from _figures("ingress_preparation", asdict(ingress.preparation), label)


def _actor(name: str, statistics: object) -> Iterator[Metric]:
    up = GaugeMetricFamily(f"troupe_{name}_up", f"Whether the {name} answered.")
    up.add_metric([], 0 if statistics is None else 1)
    yield up
    if statistics is not None:
        yield from _figures(name, asdict(statistics), {})  # type: ignore[call-overload]


def _figures(actor: str, figures: Mapping[str, object], labels: Mapping[str, str]) -> Iterator[Metric]:
    for figure, value in figures.items():
        if isinstance(value, int | float):
            metric = _family(actor, figure, list(labels))
            metric.add_metric(list(labels.values()), float(value))
            yield metric


def _lease_classes(lease: LeaseStatistics) -> Iterator[Metric]:
    """One metric a figure, with the class as its label."""
    for field in fields(ClassStatistics):
        metric = _family("lease_class", field.name, ["class"])
        for name, statistics in lease.classes.items():
            metric.add_metric([name], float(getattr(statistics, field.name)))
        yield metric


def _family(actor: str, figure: str, labels: list[str]) -> CounterMetricFamily | GaugeMetricFamily:
    family = CounterMetricFamily if figure in _RISING else GaugeMetricFamily
    text = figure.replace("_", " ")
    return family(f"troupe_{actor}_{figure}", f"{actor.replace('_', ' ').capitalize()}: {text}.", labels=labels)
