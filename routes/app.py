"""The route table."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from routes.auth import KeyMiddleware
from routes.chat import CHAT
from routes.completions import TEXT
from routes.context import AppContext
from routes.door import Door
from routes.embeddings import EmbeddingsRoute
from routes.errors import routing_error
from routes.exchange import ErrorMiddleware, ExchangeMiddleware
from routes.generation import GenerationRoute
from routes.health import HealthRoute
from routes.hosts import HostMiddleware, HostRules
from routes.keys import KeyRing
from routes.messages import MESSAGES, TokenCountRoute
from routes.metrics import MetricsRoute
from routes.models import ModelRoutes
from routes.operation import Operation
from routes.responses import RESPONSES
from routes.stats import StatsRoute
from routes.stored_responses import StoredResponseRoutes


def create_app(context: AppContext) -> Starlette:
    """The whole HTTP surface as one ASGI application. Does no I/O; may be called more than once."""
    models, stored = ModelRoutes(context), StoredResponseRoutes(context)
    routes = [
        Door("/v1/chat/completions", GenerationRoute(context, CHAT), POST=Operation("Answer a conversation")),
        Door("/v1/completions", GenerationRoute(context, TEXT), POST=Operation("Continue a text")),
        Door("/v1/embeddings", EmbeddingsRoute(context), POST=Operation("Embed texts")),
        Door("/v1/messages", GenerationRoute(context, MESSAGES), POST=Operation("Answer a conversation, as Anthropic")),
        Door("/v1/messages/count_tokens", TokenCountRoute(context), POST=Operation("Count a conversation's tokens")),
        Door("/v1/responses", GenerationRoute(context, RESPONSES), POST=Operation("Answer in the Responses protocol")),
        Door(
            "/v1/responses/{response_id}",
            stored.one,
            GET=Operation("Show a stored response"),
            DELETE=Operation("Forget a stored response"),
        ),
        Door("/v1/responses/{response_id}/input_items", stored.input_items, GET=Operation("What a response answered")),
        Door("/v1", models.index, GET=Operation("Name, version and routes")),
        Door("/v1/models", models.list, GET=Operation("The models")),
        Door("/v1/models/{model_id:path}", models.one, GET=Operation("One model")),
        Door("/health", HealthRoute(context).show, GET=Operation("Whether requests are served", "open")),
        Door("/stats", StatsRoute(context).show, GET=Operation("Figures of every actor")),
        Door("/metrics", MetricsRoute(context).show, GET=Operation("Figures for Prometheus", media="text/plain")),
    ]
    app = Starlette(
        routes=routes, middleware=_middleware(context, routes), exception_handlers={HTTPException: routing_error}
    )
    app.router.redirect_slashes = False
    return app


def _middleware(context: AppContext, doors: Sequence[Door]) -> list[Middleware]:
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
    layers.append(Middleware(HostMiddleware, rules=HostRules(server)))
    open_paths = [door.path for door in doors if any(one.right == "open" for one in door.operations.values())]
    layers.append(Middleware(KeyMiddleware, ring=KeyRing(server), open_paths=open_paths))
    return layers
