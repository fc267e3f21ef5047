"""Every actor's statistics at one moment, for /stats and /metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from actors.embedding.messages import EmbedderStatistics
from actors.errors import EngineUnavailable
from actors.generation.messages import Description, SchedulerStatistics
from actors.gpu_lease.messages import LeaseStatistics
from actors.library.messages import LibraryStatistics
from actors.prompt_cache.messages import CacheStatistics
from actors.responses.messages import StoreStatistics
from actors.spill.messages import SpillStatistics
from actors.transcription.client import NoTranscription
from actors.transcription.messages import TranscriptionStatistics
from routes.context import AppContext
from routes.gate import GateStatistics
from routes.preparation import PreparationStatistics

T = TypeVar("T")
_PATIENCE_S = 2.0
"""An actor that does not answer within this is shown as absent; the others are shown all the same."""
_log = logging.getLogger("troupe.routes")


@dataclass(frozen=True, slots=True)
class IngressStatistics:
    """This ingress replica."""

    replica: str
    """Its name."""
    gate: GateStatistics
    """Requests inside."""
    preparation: PreparationStatistics
    """The line in front of the tokenizer."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """None stands for an actor that did not answer, or that this server does not have."""

    ingress: IngressStatistics
    description: Description | None
    scheduler: SchedulerStatistics | None
    prompt_cache: CacheStatistics | None
    lease: LeaseStatistics | None
    response_store: StoreStatistics | None
    embedder: EmbedderStatistics | None
    transcriber: TranscriptionStatistics | None
    library: LibraryStatistics | None
    ssd_cache: SpillStatistics | None
    absent: frozenset[str] = frozenset()
    """Names of the fields above whose actors this server does not have."""


async def take_snapshot(context: AppContext) -> Snapshot:
    """Ask all actors at once. Returns within two seconds, whoever is down."""
    embeddings, generates = context.embeddings, context.generates
    spills = generates and context.settings.ssd_cache.enabled
    others = asyncio.gather(
        _ask("generation scheduler", context.generation.statistics() if generates else _absent()),
        _ask("prompt cache", context.cache_statistics() if generates else _absent()),
        _ask("gpu lease", context.lease_statistics()),
        _ask("response store", context.responses.statistics()),
        _ask("embedder", embeddings.client.statistics() if embeddings else _absent()),
        _ask("library", context.library.statistics()),
    )
    ssd, transcriber = await asyncio.gather(
        _ask("SSD writer", context.spill_statistics() if spills else _absent()),
        _ask("transcriber", _absent() if silent(context) else context.transcription.statistics()),
    )
    scheduler, cache, lease, responses, embedder, library = await others
    try:
        description = context.generation.description
    except EngineUnavailable:
        description = None
    ingress = IngressStatistics(context.replica, context.gate.statistics(), context.preparation.statistics())
    return Snapshot(
        ingress=ingress,
        description=description,
        scheduler=scheduler,
        prompt_cache=cache,
        lease=lease,
        response_store=responses,
        embedder=embedder,
        transcriber=transcriber,
        library=library,
        ssd_cache=ssd,
        absent=_missing(context),
    )


def silent(context: AppContext) -> bool:
    """Whether transcription is switched off."""
    return isinstance(context.transcription, NoTranscription)


def _missing(context: AppContext) -> frozenset[str]:
    generation = () if context.generates else ("scheduler", "prompt_cache")
    ssd_cache = () if context.generates and context.settings.ssd_cache.enabled else ("ssd_cache",)
    embedder = () if context.embeddings else ("embedder",)
    transcriber = ("transcriber",) if silent(context) else ()
    return frozenset((*generation, *ssd_cache, *embedder, *transcriber))


async def _absent() -> None:
    """The answer of an actor that is not there."""


async def _ask(actor: str, question: Awaitable[T]) -> T | None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await question
    except Exception as error:  # a dead actor fails in ways of its own; here all that counts is that it is silent
        _log.warning("no statistics from the %s: %s", actor, error or type(error).__name__)
        return None
