"""The route table."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from actors.errors import (
    CacheUnavailable,
    Conflict,
    EngineUnavailable,
    Expired,
    ModelUnavailable,
    UnsupportedMedia,
)
from routes.audio import TranscriptionRoute, UnloadRoute
from routes.audio_sessions import AudioSessionRoutes
from routes.audio_socket import AudioSocketRoute
from routes.auth import KeyMiddleware
from routes.cache_sessions import CacheSessionRoutes
from routes.chat import CHAT
from routes.clearing import ClearingRoutes
from routes.completions import TEXT
from routes.context import AppContext
from routes.door import Door
from routes.embeddings import EmbeddingsRoute
from routes.errors import routing_error
from routes.exchange import ErrorMiddleware, ExchangeMiddleware
from routes.generation import GenerationRoute
from routes.health import HealthRoute
from routes.hosts import HostMiddleware, HostRules
from routes.hub import HubRoutes
from routes.hub_token import HubTokenRoute
from routes.keys import KeyRing
from routes.library import LibraryRoutes
from routes.messages import MESSAGES, TokenCountRoute
from routes.metrics import MetricsRoute
from routes.models import ModelRoutes, troupe_version
from routes.openapi.audio import AudioBody
from routes.openapi.audio_sessions import AudioSessionBody
from routes.openapi.generation import ChatBody, TextBody
from routes.openapi.messages import MessagesBody
from routes.openapi.others import (
    ConsentBody,
    EmbeddingsBody,
    LibraryQuery,
    ModelBody,
    RepositoryBody,
    SearchQuery,
    SessionBody,
    TokenBody,
)
from routes.openapi.responses import ItemsQuery, ResponsesBody
from routes.openapi.route import OpenApiRoute
from routes.operation import Operation
from routes.pace import PaceMiddleware
from routes.responses import RESPONSES
from routes.socket_door import SocketDoor
from routes.ssd_cache import FlushRoute
from routes.stats import StatsRoute
from routes.stored_responses import StoredResponseRoutes


def create_app(context: AppContext) -> Starlette:
    """The whole HTTP surface as one ASGI application. Does no I/O; may be called more than once."""
    surfaces = (_generation, _embeddings, _speech, _models, _cache, _state)
    routes = [door for surface in surfaces for door in surface(context)]
    server = context.settings.server
    keyed = server.api_key is not None or bool(server.api_keys)
    description = OpenApiRoute(routes, troupe_version(), keyed)
    routes.append(Door("/openapi.json", description.show, GET=Operation("This description")))
    sockets = [SocketDoor("/v1/audio/sessions/{session_id}/stream", AudioSocketRoute(context), "inference")]
    app = Starlette(
        routes=[*routes, *sockets],
        middleware=_middleware(context, routes),
        exception_handlers={HTTPException: routing_error},
    )
    app.router.redirect_slashes = False
    return app


def _generation(context: AppContext) -> list[Door]:
    """What a model that generates answers."""
    stored = StoredResponseRoutes(context)
    return [
        Door(
            "/v1/chat/completions",
            GenerationRoute(context, CHAT),
            POST=Operation("Answer a conversation", body=ChatBody, streams=True),
        ),
        Door(
            "/v1/completions",
            GenerationRoute(context, TEXT),
            POST=Operation("Continue a text", body=TextBody, streams=True),
        ),
        Door(
            "/v1/messages",
            GenerationRoute(context, MESSAGES),
            POST=Operation("Answer a conversation, as Anthropic", body=MessagesBody, streams=True),
        ),
        Door(
            "/v1/messages/count_tokens",
            TokenCountRoute(context),
            POST=Operation("Count a conversation's tokens", body=MessagesBody),
        ),
        Door(
            "/v1/responses",
            GenerationRoute(context, RESPONSES),
            POST=Operation("Answer in the Responses protocol", body=ResponsesBody, streams=True),
        ),
        Door(
            "/v1/responses/{response_id}",
            stored.one,
            GET=Operation("Show a stored response"),
            DELETE=Operation("Forget a stored response"),
        ),
        Door(
            "/v1/responses/{response_id}/input_items",
            stored.input_items,
            GET=Operation("What a response answered", query=ItemsQuery),
        ),
    ]


def _embeddings(context: AppContext) -> list[Door]:
    """What an embedding model answers."""
    return [
        Door("/v1/embeddings", EmbeddingsRoute(context), POST=Operation("Embed texts", body=EmbeddingsBody)),
    ]


def _speech(context: AppContext) -> list[Door]:
    """What a Whisper model answers, and what pages it out."""
    live = AudioSessionRoutes(context)
    return [
        Door(
            "/v1/audio/transcriptions",
            TranscriptionRoute(context, "transcribe"),
            POST=Operation("Write down what is said", body=AudioBody, streams=True, refuses=(UnsupportedMedia,)),
        ),
        Door(
            "/v1/audio/translations",
            TranscriptionRoute(context, "translate"),
            POST=Operation("Write down in English what is said", body=AudioBody, streams=True),
        ),
        Door("/v1/audio/sessions", live.create, POST=Operation("Begin a live transcription", body=AudioSessionBody)),
        Door("/v1/audio/sessions/{session_id}", live.discard, DELETE=Operation("Forget a live transcription")),
        Door(
            "/v1/audio/sessions/{session_id}/audio",
            live.append,
            POST=Operation("Add a chunk of audio, as samples or as a file", refuses=(Conflict, Expired)),
        ),
        Door(
            "/v1/audio/sessions/{session_id}/finish",
            live.finish,
            POST=Operation("Transcribe the rest of the audio", refuses=(Conflict, Expired)),
        ),
        Door(
            "/admin/transcription/unload",
            UnloadRoute(context).unload,
            POST=Operation("Page the speech model out", "admin", refuses=(ModelUnavailable,)),
        ),
    ]


def _models(context: AppContext) -> list[Door]:
    """What is served, what is on the disk, and what there is on the hub."""
    models, library = ModelRoutes(context), LibraryRoutes(context)
    hub, clearing = HubRoutes(context), ClearingRoutes(context)
    return [
        Door("/v1", models.index, GET=Operation("Name, version and routes")),
        Door("/v1/models", models.list, GET=Operation("The models")),
        Door("/v1/models/{model_id:path}", models.one, GET=Operation("One model")),
        Door("/fit", library.fit, GET=Operation("What the served model needs, here and on other machines")),
        Door("/library", library.library, GET=Operation("The models on disk", query=LibraryQuery)),
        Door("/downloads", library.downloads, GET=Operation("The last downloads")),
        Door("/api/hub/local", hub.local, GET=Operation("The models on disk", "admin")),
        Door("/api/hub/search", hub.search, GET=Operation("Find models on the hub", "admin", query=SearchQuery)),
        Door("/api/hub/download", hub.download, POST=Operation("Download a model", "admin", RepositoryBody)),
        Door("/api/hub/serve", hub.serve, POST=Operation("How to serve another model", "admin", ModelBody)),
        Door("/api/gc/plan", clearing.plan, GET=Operation("What could be deleted", "admin")),
        Door("/api/gc/execute", clearing.execute, POST=Operation("Delete it", "admin", ConsentBody)),
        Door(
            "/api/settings/hf-token",
            HubTokenRoute(context).answer,
            GET=Operation("Whether there is a hub token", "admin"),
            POST=Operation("Save a hub token", "admin", TokenBody),
            DELETE=Operation("Forget the hub token", "admin"),
        ),
    ]


def _cache(context: AppContext) -> list[Door]:
    """What the prompt cache is told."""
    return [
        Door(
            "/admin/cache/session/close",
            CacheSessionRoutes(context).close,
            POST=Operation(
                "End a session's claim on stored prefixes", "admin", SessionBody, refuses=(CacheUnavailable,)
            ),
        ),
        Door(
            "/admin/cache/flush",
            FlushRoute(context).flush,
            POST=Operation("Make stored prefixes durable", "admin", partly=(503,), refuses=(EngineUnavailable,)),
        ),
    ]


def _state(context: AppContext) -> list[Door]:
    """How the server is."""
    return [
        Door("/health", HealthRoute(context).show, GET=Operation("Whether requests are served", "open")),
        Door("/stats", StatsRoute(context).show, GET=Operation("Figures of every actor")),
        Door("/metrics", MetricsRoute(context).show, GET=Operation("Figures for Prometheus", media="text/plain")),
    ]


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
    pace = {"gate": context.gate, "library": context.library, "fingerprint": context.card.fingerprint}
    layers.append(Middleware(PaceMiddleware, **pace, clock=context.clock))
    layers.append(Middleware(ErrorMiddleware))
    layers.append(Middleware(HostMiddleware, rules=HostRules(server)))
    open_paths = [door.path for door in doors if any(one.right == "open" for one in door.operations.values())]
    layers.append(Middleware(KeyMiddleware, ring=KeyRing(server), open_paths=open_paths))
    return layers
