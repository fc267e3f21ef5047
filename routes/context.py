"""What the routes of one ingress replica share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property

from actors.clock import Clock, MonotonicClock
from actors.embedding.client import EmbeddingClient
from actors.generation.client import GenerationClient
from actors.generation.messages import Description, Flushed
from actors.gpu_lease.messages import LeaseStatistics
from actors.library.client import LibraryClient
from actors.models.card import ModelCard
from actors.open_requests import OpenRequests
from actors.prompt_cache.messages import CacheStatistics
from actors.responses.client import ResponseStoreClient
from actors.settings import Settings
from actors.spill.messages import SpillStatistics
from actors.transcription.client import NoTranscription, TranscriptionClient
from actors.transcription.session_client import NoSessions, SessionClient
from routes.embedding_tokenizer import EmbeddingTokenizer
from routes.enforcement import Frame, frame_of
from routes.gate import Gate
from routes.output import OutputFormat
from routes.preparation import Preparation
from routes.tokenizer import ChatTokenizer


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The embedding model of a server."""

    client: EmbeddingClient
    """The way to it."""
    tokenizer: EmbeddingTokenizer
    """Its tokenizer."""


@dataclass(frozen=True)
class AppContext:
    """Built once by whoever hosts the application; the tests build it from fakes."""

    settings: Settings
    """The whole configuration."""
    card: ModelCard
    """The served checkpoint."""
    tokenizer: ChatTokenizer
    """Its tokenizer."""
    generation: GenerationClient
    """The way to the generation scheduler."""
    cache_statistics: Callable[[], Awaitable[CacheStatistics]]
    """Asks the prompt-cache manager."""
    lease_statistics: Callable[[], Awaitable[LeaseStatistics]]
    """Asks the GPU lease."""
    responses: ResponseStoreClient
    """The way to the response store."""
    close_session: Callable[[str], Awaitable[None]]
    """Tells the prompt-cache manager that a session is over."""
    library: LibraryClient
    """The way to the library."""
    flush: Callable[[float], Awaitable[Flushed]]
    """Makes every stored prefix durable, within so many seconds."""
    spill_statistics: Callable[[], Awaitable[SpillStatistics]]
    """Asks the SSD writer; only with an SSD tier."""
    output: OutputFormat
    """How the model marks thinking and tool calls."""
    preparation: Preparation
    """The threads that render and tokenize."""
    preparing: OpenRequests = field(default_factory=OpenRequests, kw_only=True)
    """Requests for an answer that are being made into rows."""
    started_at: int
    """Start of the server, in whole seconds since the epoch."""
    replica: str = "ingress"
    """Name of this ingress replica, for statistics."""
    gate: Gate = field(default_factory=Gate)
    """Counts requests, and refuses them while the server stops."""
    generates: bool = True
    """Whether the served model generates; False for an embedding model."""
    embeddings: Embeddings | None = None
    """The embedding model: the served one, or one beside it."""
    transcription: TranscriptionClient = field(default_factory=NoTranscription)
    """The way to the transcriber."""
    audio_sessions: SessionClient = field(default_factory=NoSessions)
    """The way to its live sessions."""
    transcribes: bool = False
    """Whether the served model is a Whisper model."""
    no_grammar: str | None = None
    """Why no constraint is enforced by a grammar; None when they are."""
    tracing: bool = False
    """Whether completion requests write a trace."""
    clock: Clock = field(default_factory=MonotonicClock)
    """Measures durations."""

    @property
    def keeps_states(self) -> bool:
        """Whether the scheduler keeps states at boundaries of prompts. Raises EngineUnavailable before its start."""
        return self.settings.prompt_cache.max_bytes > 0 and not self.generation.description.trimmable

    @cached_property
    def calls_frame(self) -> Frame:
        """How the model's tool calls are enforced."""
        output, tokenizer = self.output, self.tokenizer
        name = output.reasoning.name if output.reasoning.calls else output.calls.name
        return frame_of(name, tokenizer.template_text, tokenizer.tokens)


def batch_mode(description: Description) -> str:
    """`off` (one row by configuration), `serial` (the model's caches cannot be batched) or `batch`."""
    if description.max_rows == 1:
        return "off"
    return "batch" if description.batchable else "serial"


def lane(description: Description) -> str:
    """How requests are executed, as `usage` says it."""
    return "batched" if batch_mode(description) == "batch" else "serial"
