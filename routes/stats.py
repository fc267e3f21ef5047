"""GET /stats: the state of the server as JSON."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response

from actors.library.messages import FitAnswer
from routes.context import AppContext, batch_mode
from routes.library import StandingFit
from routes.snapshot import Snapshot, take_snapshot
from routes.ssd_cache import ssd_cache
from routes.wire import json_response


class StatsRoute:
    """Figures an actor did not give are null."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._fit = StandingFit(context)

    async def show(self, request: Request) -> Response:
        context = self._context
        snapshot, fit = await asyncio.gather(take_snapshot(context), self._fit.answer())
        return json_response(
            {
                "server": {"owner": "serve", "model": context.card.model_id, "started_at": context.started_at},
                "prompt_cache": _prompt_cache(snapshot),
                "response_store": _response_store(snapshot),
                **({} if "ssd_cache" in snapshot.absent else {"ssd_cache": ssd_cache(snapshot)}),
                "kv_quant": _kv_quant(fit),
                "admission": _admission(snapshot, fit, context.settings.gpu_lease.memory_budget),
                "batch": _batch(snapshot),
                **({} if snapshot.transcriber is None else {"transcription": snapshot.transcriber.block()}),
                "troupe": {
                    "scheduler": _plain(snapshot.scheduler),
                    "prompt_cache": _plain(snapshot.prompt_cache),
                    "lease": _plain(snapshot.lease),
                    "response_store": _plain(snapshot.response_store),
                    "embedder": _plain(snapshot.embedder),
                    "transcriber": _plain(snapshot.transcriber),
                    "library": _plain(snapshot.library),
                    "ssd_cache": _plain(snapshot.ssd_cache),
                    "ingress": _ingress(snapshot),
                },
            }
        )


def _prompt_cache(snapshot: Snapshot) -> dict[str, object] | None:
    cache = snapshot.prompt_cache
    if cache is None:
        return None
    return {
        "entries": cache.entries,
        "bytes": cache.size,
        "max_bytes": cache.max_size,
        "hits": cache.hits,
        "misses": cache.misses,
        # No model that sees or hears is served, so there are no objects beside prefixes.
        "object_hits": 0,
        "object_misses": 0,
        "object_restores": 0,
        "session_hits": cache.session_hits,
        "session_misses": cache.session_misses,
        "prefix_scans": cache.prefix_scans,
    }


def _response_store(snapshot: Snapshot) -> dict[str, object] | None:
    store = snapshot.response_store
    if store is None:
        return None
    return {
        "entries": store.entries,
        "bytes": store.size,
        "max_bytes": store.max_size,
        "ttl_ms": round(store.ttl_s * 1000),
    }


def _kv_quant(fit: FitAnswer | None) -> dict[str, object]:
    """How caches are kept. The layers are counted from the configuration; null where the library did not answer."""
    if fit is None:
        return {"mode": "bf16", "layers": None, "attention": None, "recurrent_layers": None}
    return {
        "mode": "bf16",
        "layers": {"bf16": fit.full_layers + fit.sliding_layers},
        "attention": {"global": fit.full_layers, "sliding_window": fit.sliding_layers},
        "recurrent_layers": fit.recurrent_layers,
    }


def _admission(snapshot: Snapshot, fit: FitAnswer | None, budget: int | None) -> dict[str, object]:
    description, lease = snapshot.description, snapshot.lease
    return {
        "max_safe_context": fit.report.max_context if fit else None,
        "enforced_context_tokens": description.context_limit if description else None,
        "memory_budget_bytes": budget,
        "usable_bytes": lease.budget_bytes if lease else None,
        "weights_bytes": description.weight_bytes if description else None,
    }


def _batch(snapshot: Snapshot) -> dict[str, object] | None:
    description, scheduler = snapshot.description, snapshot.scheduler
    if description is None or scheduler is None:
        return None
    mode = batch_mode(description)
    return {
        "configured": description.max_rows,
        "mode": mode,
        "batched": mode == "batch",
        "active_rows": scheduler.active_rows,
        "pending_rows": scheduler.waiting_rows + scheduler.prefilling_rows,
        "submitted_rows": scheduler.submitted_rows if mode == "batch" else 0,
        "kv_bytes": scheduler.kv_bytes,
        "kv_budget_bytes": None,
    }


def _ingress(snapshot: Snapshot) -> dict[str, object]:
    ingress = snapshot.ingress
    return {"replica": ingress.replica, **asdict(ingress.gate), "preparation": asdict(ingress.preparation)}


def _plain(statistics: object) -> dict[str, object] | None:
    return None if statistics is None else asdict(statistics)  # type: ignore[call-overload]
