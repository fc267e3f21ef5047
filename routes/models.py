"""GET /v1, /v1/models and /v1/models/<id>."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from starlette.requests import Request
from starlette.responses import Response

from routes.context import AppContext, batch_mode
from routes.embedding_row import embedding_row
from routes.wire import json_response

_ENDPOINTS = (
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "POST /v1/responses",
    "POST /v1/embeddings",
    "GET /v1/models",
    "GET /health",
    "GET /stats",
    "GET /metrics",
)


class ModelRoutes:
    """What is served, for tools that want to find out."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def index(self, request: Request) -> Response:
        """Name, version, model and endpoints."""
        return json_response(
            {
                "name": "troupe",
                "version": _version(),
                "model": self._context.card.model_id,
                "endpoints": _ENDPOINTS,
            }
        )

    async def list(self, request: Request) -> Response:
        """Every model, the served one first. Raises EngineUnavailable while the scheduler is down."""
        return json_response({"object": "list", "data": self._rows()})

    async def one(self, request: Request) -> Response:
        """The list, with no other model than the one asked for; empty when it is not known."""
        wanted = request.path_params["model_id"]
        found = [model for model in self._rows() if model["id"] == wanted]
        return json_response({"object": "list", "data": found})

    def _rows(self) -> Sequence[dict[str, object]]:
        context = self._context
        embeddings = context.embeddings
        rows = [self._served()] if context.generates else []
        if embeddings is not None:
            rows.append(embedding_row(embeddings.client.card, context.started_at))
        return rows

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
            "tools": False,
            "structured_output": False,
            "embeddings": False,
            "adapters": False,
            "training": False,
            "dsa": False,
            "mtp": False,
            "capabilities": _capabilities(),
            "gen_defaults": self._generation_defaults(),
        }

    def _generation_defaults(self) -> dict[str, object]:
        """What the operator or the model's author set; null where neither did."""
        settings, card = self._context.settings.generation, self._context.card
        return {
            name: getattr(card, name) if getattr(settings, name) is None else getattr(settings, name)
            for name in ("temperature", "top_p", "top_k")
        }


def _capabilities() -> dict[str, bool]:
    served = ("chat_completions", "text_completions", "responses", "streaming")
    absent = (
        "anthropic_messages",
        "tools",
        "structured_output",
        "logprobs",
        "embeddings",
        "vision",
        "audio",
        "adapters",
        "training",
    )
    return {name: name in served for name in (*served, *absent)}


def _version() -> str:
    try:
        return version("troupe")
    except PackageNotFoundError:
        return "unknown"
