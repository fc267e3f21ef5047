"""GET /library, /downloads and /fit: the models on disk, those on their way, and what this machine can hold."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from actors.errors import EngineUnavailable, LibraryUnavailable
from actors.library.messages import Download, FitAnswer, FitQuestion, LibraryEntry
from actors.models.fit import Fit
from routes.context import AppContext
from routes.wire import json_response

_PATIENCE_S = 2.0
_log = logging.getLogger("troupe.routes")


class LibraryRoutes:
    """Everything here is the library's answer in the protocol's words. Raises LibraryUnavailable while it is away."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def library(self, request: Request) -> Response:
        """Every cached model; `?refresh=1` looks anew."""
        entries = await self._context.library.models(request.query_params.get("refresh") == "1")
        served = served_folders(self._context)
        rows = [{**entry_row(entry), "audio": False, "serving": entry.path.resolve() in served} for entry in entries]
        return json_response({"models": rows})

    async def downloads(self, request: Request) -> Response:
        """The last downloads, newest first."""
        return json_response({"downloads": [_download_row(one) for one in await self._context.library.downloads()]})

    async def fit(self, request: Request) -> Response:
        """How the served model stands on this machine and on others."""
        return json_response(_fit_body(await self._context.library.fit(fit_question(self._context))))


def served_folders(context: AppContext) -> tuple[Path, ...]:
    """Folders of the models that are being served."""
    cards = [context.card] if context.embeddings is None else [context.card, context.embeddings.client.card.model]
    return tuple(card.path.resolve() for card in cards)


def entry_row(entry: LibraryEntry) -> dict[str, object]:
    """One cached model, as /library and the hub's panel list it. No model's images can be served."""
    return {
        "repo_id": entry.repo_id,
        "model_type": entry.model_type,
        "size_bytes": entry.size_bytes,
        "quant_bits": entry.quant_bits,
        "vision": False,
        "supported": entry.tier is not None,
        "support_tier": entry.tier,
        "assessment": _assessment(entry.fit),
    }


def fit_question(context: AppContext) -> FitQuestion:
    """The served model, as the library is asked about it."""
    try:
        description = context.generation.description
    except EngineUnavailable:
        description = None
    return FitQuestion(
        path=context.card.path,
        fingerprint=context.card.fingerprint,
        stored_bytes=context.card.weight_bytes,
        resident_bytes=description.weight_bytes if description else None,
        value_bytes=4.0 if description and description.dtype == "float32" else 2.0,
        context_limit=description.context_limit if description else None,
    )


class StandingFit:
    """The fit of the served model for those who ask often: the library is asked once for each state of the model."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._known: tuple[FitQuestion, FitAnswer] | None = None

    async def answer(self) -> FitAnswer | None:
        """The answer without measured rates; None while the library does not give one."""
        question = fit_question(self._context)
        if self._known is not None and self._known[0] == question:
            return self._known[1]
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answer = await self._context.library.fit(question)
        except (LibraryUnavailable, TimeoutError) as error:
            _log.debug("no fit: %s", error)
            return None
        self._known = question, answer
        return answer


def _assessment(fit: Fit | None) -> dict[str, object] | None:
    if fit is None:
        return None
    return {"fits": fit.fits, "max_safe_context": fit.max_context, "predicted_decode_tps": round(fit.decode_tps, 2)}


def _download_row(download: Download) -> dict[str, object]:
    row: dict[str, object] = {
        "repo_id": download.repo_id,
        "state": download.state,
        "current_file": download.current_file,
        "received_bytes": download.received_bytes,
        "total_bytes": download.total_bytes,
        "files_done": download.files_done,
        "files_total": download.files_total,
        "bytes_per_sec": round(download.bytes_per_s),
        "started_at": int(download.started_at),
        "finished_at": None if download.finished_at is None else int(download.finished_at),
    }
    return row if download.error is None else {**row, "error": download.error}


def _fit_body(answer: FitAnswer) -> dict[str, object]:
    machine, report = answer.machine, answer.report
    return {
        "machine": {
            "chip": machine.chip,
            "ram_bytes": machine.ram_bytes,
            "bandwidth_gbs": machine.bandwidth_gbs,
        },
        "context_tokens": answer.context,
        "typical_context_tokens": answer.typical_context,
        "typical_decode_tps": round(answer.typical_decode_tps, 2),
        "measured_decode_tps": None if answer.measured_decode_tps is None else round(answer.measured_decode_tps, 2),
        "measured_at": None if answer.measured_at is None else int(answer.measured_at * 1000),
        "report": {
            "fits": report.fits,
            "weights_bytes": report.weights,
            "kv_bytes": report.kv,
            "transient_bytes": report.transient,
            "total_bytes": report.total,
            "usable_bytes": report.usable,
            "max_safe_context": report.max_context,
            "predicted_decode_tps": round(report.decode_tps, 2),
        },
        "sku_matrix_ctx": answer.matrix_context,
        "sku_matrix": [{**asdict(row), "decode_tps": round(row.decode_tps, 2)} for row in answer.matrix],
    }
