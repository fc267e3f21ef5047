"""The route table."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from routes.auth import KeyMiddleware
from routes.chat import CHAT
from routes.completions import TEXT
from routes.context import AppContext
from routes.embeddings import EmbeddingsRoute
from routes.errors import routing_error
from routes.exchange import ErrorMiddleware, ExchangeMiddleware
from routes.generation import GenerationRoute
from routes.health import HealthRoute
from routes.messages import MESSAGES, TokenCountRoute
from routes.metrics import MetricsRoute
from routes.models import ModelRoutes
from routes.responses import RESPONSES
from routes.stats import StatsRoute
from routes.stored_responses import StoredResponseRoutes


def create_app(context: AppContext) -> Starlette:
    """The whole HTTP surface as one ASGI application. Does no I/O; may be called more than once."""
    models, stored = ModelRoutes(context), StoredResponseRoutes(context)
    routes = [
        Route("/v1/chat/completions", GenerationRoute(context, CHAT), methods=["POST"]),
        Route("/v1/completions", GenerationRoute(context, TEXT), methods=["POST"]),
        Route("/v1/embeddings", EmbeddingsRoute(context), methods=["POST"]),
        Route("/v1/messages", GenerationRoute(context, MESSAGES), methods=["POST"]),
        Route("/v1/messages/count_tokens", TokenCountRoute(context), methods=["POST"]),
        Route("/v1/responses", GenerationRoute(context, RESPONSES), methods=["POST"]),
        Route("/v1/responses/{response_id}", stored.one, methods=["GET", "DELETE"]),
        Route("/v1/responses/{response_id}/input_items", stored.input_items),
        Route("/v1", models.index),
        Route("/v1/models", models.list),
        Route("/v1/models/{model_id:path}", models.one),
        Route("/health", HealthRoute(context).show),
        Route("/stats", StatsRoute(context).show),
        Route("/metrics", MetricsRoute(context).show),
    ]
    app = Starlette(routes=routes, middleware=_middleware(context), exception_handlers={HTTPException: routing_error})
    app.router.redirect_slashes = False
    return app


def _middleware(context: AppContext) -> list[Middleware]:
    """Outermost first. CORS stands outside of errors and keys, so that a listed page can read a refusal."""
    server = context.settings.server
    layers = [Middleware(ExchangeMiddleware, clock=context.clock)]
    if server.cors_origins:
        layers.append(
            Middleware(
                CORSMiddleware,
                allow_origins=server.cors_origins,
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["*"],
                expose_headers=["x-request-id", "warning"],
            )
        )
    layers.append(Middleware(ErrorMiddleware))
    if server.api_key is not None:
        layers.append(Middleware(KeyMiddleware, key=server.api_key))
    return layers
