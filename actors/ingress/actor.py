"""One ingress replica: HTTP in front, the scheduler's mailbox behind. Stateless; never imports MLX."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from actors.errors import CacheUnavailable, EngineUnavailable
from actors.generation.messages import Flushed
from actors.gpu_lease.messages import LeaseStatistics
from actors.ingress.embedding_link import EmbeddingLink
from actors.ingress.link import SchedulerLink
from actors.ingress.no_generation import NoGeneration
from actors.ingress.no_tokenizer import speechless_tokenizer
from actors.ingress.protocol import HeadLimits
from actors.ingress.server import HttpServer, bind
from actors.ingress.session_link import SessionLink
from actors.ingress.transcription_link import TranscriptionLink
from actors.library.client import LibraryClient
from actors.models.lineup import Lineup
from actors.prompt_cache.messages import CacheStatistics
from actors.responses.client import ResponseStoreClient
from actors.settings import Settings
from actors.spill.messages import SpillStatistics
from actors.transcription.client import NoTranscription
from actors.transcription.session_client import NoSessions
from routes.app import create_app
from routes.context import AppContext, Embeddings
from routes.embedding_tokenizer import EmbeddingTokenizer
from routes.gate import Gate, GateStatistics
from routes.output import grammar_switch, output_format
from routes.preparation import Preparation
from routes.tokenizer import ChatTokenizer

log = logging.getLogger("troupe.ingress")

PATIENCE_S = 5.0
"""How long the prompt-cache manager may take to answer."""


class Ingress:
    """All methods are called on one event loop.

    Args:
        settings: the whole configuration.
        lineup: what is served.
        scheduler: handle of the generation scheduler; None where the served model only embeds.
        manager: handle of the prompt-cache manager; None in the same case.
        lease: returns the handle of this machine's GPU lease.
        replica: name of this replica.
        responses: handle of the response store.
        library: handle of the library.
        embedder: handle of the embedder; None where no embedding model is served.
        writer: handle of the SSD writer; None without an SSD tier.
        transcriber: handle of the transcriber; None where transcription is switched off.
        transcribers: finds the transcriber's replicas; without it the handle stands for all of them.
    """

    def __init__(
        self,
        settings: Settings,
        lineup: Lineup,
        scheduler: Any,
        manager: Any,
        lease: Callable[[], Any],
        replica: str,
        responses: Any,
        library: Any,
        embedder: Any = None,
        writer: Any = None,
        transcriber: Any = None,
        transcribers: Callable[[], Awaitable[list[str]]] | None = None,
    ) -> None:
        self._settings = settings
        self._lineup = lineup
        self._card = lineup.served
        self._embedder = embedder
        self._scheduler = scheduler
        self._writer = writer
        self._transcription = (
            NoTranscription() if transcriber is None else TranscriptionLink(transcriber, transcribers or _no_names)
        )
        self._audio_sessions = NoSessions() if transcriber is None else SessionLink(transcriber)
        self._manager = manager
        self._lease_factory = lease
        self._lease: Any = None
        self._gate = Gate()
        self._link = SchedulerLink(scheduler, on_draining=self._gate.close) if lineup.generates else None
        self._replica = replica
        self._responses = ResponseStoreClient(responses)
        self._library = LibraryClient(library)

    async def start(self) -> None:
        """Wait for the scheduler, then open the port. Raises `StartError`."""
        settings = self._settings
        sock = bind(settings.server.host, settings.server.port, shared=settings.ingress.max_replicas > 1)
        tokenizer = speechless_tokenizer() if self._lineup.transcribes else ChatTokenizer.load(self._card.path)
        if self._link is not None:
            await self._link.start()
        self._context = AppContext(
            settings=settings,
            card=self._card,
            tokenizer=tokenizer,
            generation=self._link
            or NoGeneration(self._card.model_id, "speech" if self._lineup.transcribes else "embedding"),
            cache_statistics=self._cache_statistics,
            close_session=self._close_session,
            lease_statistics=self._lease_statistics,
            responses=self._responses,
            library=self._library,
            flush=self._flush,
            spill_statistics=self._spill_statistics,
            output=output_format(tokenizer, settings.generation),
            preparation=Preparation(settings.ingress.preparation_threads, settings.ingress.preparation_queue),
            started_at=int(time.time()),
            replica=self._replica,
            gate=self._gate,
            tracing=settings.logging.trace or os.environ.get("MLX_BUN_P2R_TRACE") == "1",
            generates=self._lineup.generates,
            embeddings=self._embeddings(),
            transcription=self._transcription,
            audio_sessions=self._audio_sessions,
            transcribes=self._lineup.transcribes,
            no_grammar=grammar_switch(settings.generation, os.environ),
        )
        limits = HeadLimits(
            settings.server.max_header_bytes, settings.server.max_headers, message_size=settings.server.max_body_bytes
        )
        self._server = HttpServer(create_app(self._context), sock, settings.server.drain_timeout_s, limits)
        self._server.start()

    def _embeddings(self) -> Embeddings | None:
        card = self._lineup.embedding
        if card is None:
            return None
        link = EmbeddingLink(self._embedder, card, self._settings.embeddings.queue)
        return Embeddings(link, EmbeddingTokenizer.load(card.model.path, card.max_tokens))

    def check_health(self) -> None:
        """Raises when the HTTP server has ended, so that the replica is replaced."""
        if not self._server.alive:
            raise RuntimeError("the HTTP server has ended")

    @property
    def open_requests(self) -> int:
        return self._gate.statistics().open_requests

    async def statistics(self) -> GateStatistics:
        return self._gate.statistics()

    async def stop(self) -> None:
        """Refuse new requests, answer open ones, close the port."""
        self._gate.close()
        await self._server.stop()
        if self._link is not None:
            self._link.close()
        self._context.preparation.close()

    async def _close_session(self, session: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._manager.close_session.remote(session)
        except Exception as error:
            raise CacheUnavailable("the prompt-cache manager does not answer; try again") from error

    async def _flush(self, timeout_s: float) -> Flushed:
        if self._scheduler is None:
            return Flushed(attached=False)
        try:
            async with asyncio.timeout(timeout_s + PATIENCE_S):
                return await self._scheduler.flush.remote(timeout_s)
        except Exception as error:
            raise EngineUnavailable("the generation scheduler does not answer") from error

    async def _spill_statistics(self) -> SpillStatistics:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._writer.statistics.remote()
        except Exception as error:
            raise CacheUnavailable("the SSD writer does not answer; try again") from error

    async def _cache_statistics(self) -> CacheStatistics:
        return await self._manager.statistics.remote()

    async def _lease_statistics(self) -> LeaseStatistics:
        if self._lease is None:
            self._lease = self._lease_factory()
        return await self._lease.statistics.remote()


async def _no_names() -> list[str]:
    return []
