"""GET /v1, /v1/models and /v1/models/<id>."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from starlette.requests import Request
from starlette.responses import Response

from actors.errors import LibraryUnavailable
from actors.library.messages import LibraryEntry
from routes.context import AppContext, batch_mode
from routes.embedding_row import embedding_row
from routes.speech_row import speech_row
from routes.wire import json_response

_ENDPOINTS = (
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "POST /v1/messages",
    "POST /v1/responses",
    "POST /v1/embeddings",
    "POST /v1/audio/transcriptions",
    "POST /v1/audio/translations",
    "GET /v1/models",
    "GET /health",
    "GET /stats",
    "GET /fit",
    "GET /library",
    "GET /downloads",
    "GET /metrics",
)
_PATIENCE_S = 2.0
"""For the library; what is served is listed all the same."""
_log = logging.getLogger("troupe.routes")


class ModelRoutes:
    """What is served, for tools that want to find out."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def index(self, request: Request) -> Response:
        """Name, version, model and endpoints."""
        return json_response(
            {
                "name": "troupe",
                "version": troupe_version(),
                "model": self._context.card.model_id,
                "endpoints": _ENDPOINTS,
            }
        )

    async def list(self, request: Request) -> Response:
        """The served model, then every other one on disk that could be.

        Raises EngineUnavailable while the scheduler is down.
        """
        return json_response({"object": "list", "data": await self._rows()})

    async def one(self, request: Request) -> Response:
        """The list, with no other model than the one asked for; empty when it is not known."""
        wanted = request.path_params["model_id"]
        found = [model for model in await self._rows() if model["id"] == wanted]
        return json_response({"object": "list", "data": found})

    async def _rows(self) -> Sequence[dict[str, object]]:
        context = self._context
        embeddings = context.embeddings
        rows = [self._served()] if context.generates else []
        if embeddings is not None:
            rows.append(embedding_row(embeddings.client.card, context.started_at))
        if context.transcribes:
            rows.append(speech_row(context.card, context.started_at))
        known = {row["id"] for row in rows}
        others = [entry for entry in await self._on_disk() if entry.servable and entry.repo_id not in known]
        return [*rows, *(self._other(entry) for entry in others)]

    async def _on_disk(self) -> Sequence[LibraryEntry]:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self._context.library.models()
        except (LibraryUnavailable, TimeoutError) as error:
            _log.warning("only what is served is listed: %s", error or "the library takes too long")
            return ()

    def _other(self, entry: LibraryEntry) -> dict[str, object]:
        return {
            "id": entry.repo_id,
            "object": "model",
            "created": self._context.started_at,
            "vision": False,
            "tier": entry.tier,
        }

    def _served(self) -> dict[str, object]:
        context = self._context
        return {
            "id": context.card.model_id,
            "object": "model",
            "created": context.started_at,
            "owned_by": "troupe",
            "context_window": context.card.context_window,
            "reasoning": context.tokenizer.thinking,
            "vision": False,
            "audio": False,
            "batch_mode": batch_mode(context.generation.description),
            "tools": True,
            "structured_output": context.no_grammar is None,
            "embeddings": False,
            "adapters": False,
            "training": False,
            "dsa": False,
            "mtp": False,
            "capabilities": _capabilities(structured_output=context.no_grammar is None),
            "gen_defaults": self._generation_defaults(),
        }

    def _generation_defaults(self) -> dict[str, object]:
        """What the operator or the model's author set; null where neither did."""
        settings, card = self._context.settings.generation, self._context.card
        return {
            name: getattr(card, name) if getattr(settings, name) is None else getattr(settings, name)
            for name in ("temperature", "top_p", "top_k")
        }


def _capabilities(*, structured_output: bool) -> dict[str, bool]:
    """What a model that generates can be asked for."""
    served = (
        "chat_completions",
        "text_completions",
        "anthropic_messages",
        "responses",
        "streaming",
        "tools",
        "logprobs",
    )
    absent = ("embeddings", "vision", "audio", "adapters", "training")
    return {
        **dict.fromkeys(served, True),
        "structured_output": structured_output,
        **dict.fromkeys(absent, False),
    }


def troupe_version() -> str:
    """The version that is installed."""
    try:
        return version("troupe")
    except PackageNotFoundError:
        return "unknown"
