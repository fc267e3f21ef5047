"""Scheduler, manager and SSD writer in this process, without HTTP and Ray: token ids in, token ids out."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.generation.actor import GenerationScheduler
from actors.generation.messages import Sampling, SpillingStatistics, Submit
from actors.generation.packing import pack
from actors.gpu_lease.actor import GpuLease
from actors.ids import RequestId
from actors.ingress.link import SchedulerLink
from actors.models.resolve import prepare
from actors.prompt_cache.actor import PromptCacheManager
from actors.settings import Settings, parse
from actors.spill.actor import SpillWriter
from actors.spill.files import Files
from tests.support.handle import Handle
from tests.support.waiting import eventually

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Answer:
    """What a request came to."""

    tokens: list[int]
    cached: int


class Mortal:
    """A handle of an actor that can be replaced."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def __getattr__(self, name: str) -> Any:
        return _Method(self, name)


class _Method:
    def __init__(self, handle: Mortal, name: str) -> None:
        self._handle, self._name = handle, name

    async def remote(self, *arguments: Any) -> Any:
        if self._handle.actor is None:
            raise ConnectionError("dead")
        return await getattr(self._handle.actor, self._name)(*arguments)


class Stage:
    """Everybody, up."""

    def __init__(self, settings: Settings, files: Files | None) -> None:
        self.settings = settings
        self._files = files
        self._numbers = itertools.count()
        self.writer = SpillWriter(settings.ssd_cache, files)
        self.writing = Mortal(self.writer)
        self.manager = PromptCacheManager(settings.prompt_cache)

    async def start(self, folder: Path) -> None:
        settings = self.settings
        lease = Handle(GpuLease(settings.gpu_lease, folder / "lease.json"))
        card = prepare(settings.model, progress=False, trust_model_code=True)
        self.scheduler = GenerationScheduler(
            settings, card, Handle(self.manager), lambda: lease, "127.0.0.1", self.writing
        )
        await self.scheduler.start()
        self.link = SchedulerLink(Handle(self.scheduler), lambda: None)
        await self.link.start()

    async def close(self) -> None:
        self.link.close()
        await self.scheduler.close()
        self.manager.close()
        await self.writer.close()

    async def replace_writer(self) -> None:
        """The writer dies and another one takes its place."""
        self.writing.actor = None
        await self.writer.close()
        self.writer = SpillWriter(self.settings.ssd_cache, self._files)
        self.writing.actor = self.writer

    async def answer(
        self, prompt: Sequence[int], max_tokens: int = 8, sampling: Sampling | None = None, **options: Any
    ) -> Answer:
        """Generate."""
        tokens: list[int] = []
        cached = 0
        name = RequestId(f"request-{next(self._numbers)}")
        request = Submit(name, self.link.ingress, pack(list(prompt)), max_tokens, sampling or Sampling(), **options)
        async with asyncio.timeout(PATIENCE_S), self.link.generate(request) as deltas:
            async for delta in deltas:
                tokens += delta.tokens
                cached = cached if delta.cached_tokens is None else delta.cached_tokens
        return Answer(tokens, cached)

    async def leave(self, prompt: Sequence[int], max_tokens: int, sampling: Sampling, after: int) -> list[int]:
        """Generate, and go after so many tokens; returns them."""
        tokens: list[int] = []
        name = RequestId(f"request-{next(self._numbers)}")
        request = Submit(name, self.link.ingress, pack(list(prompt)), max_tokens, sampling)
        async with asyncio.timeout(PATIENCE_S), self.link.generate(request) as deltas:
            async for delta in deltas:
                tokens += delta.tokens
                if len(tokens) >= after:
                    break
        return tokens[:after]

    async def spilling(self) -> SpillingStatistics:
        figures = (await self.scheduler.statistics()).spilling
        assert figures is not None
        return figures

    async def durable(self) -> None:
        """Wait until everything is on the disk, without asking for it."""

        async def settled() -> bool:
            return (await self.spilling()).pending_snapshots == 0

        await eventually(settled)


@asynccontextmanager
async def stage(
    model: Path, cache: Path, files: Files | None = None, **sections: Mapping[str, Any]
) -> AsyncIterator[Stage]:
    """The actors for a model, with the SSD tier in `cache`; `sections` go over small settings for tests."""
    arguments: dict[str, Any] = {
        "model": str(model),
        "generation": {"trust_model_code": True, "dtype": "float32", "grammar": {"enabled": False}},
        "prompt_cache": {"min_tokens": 4},
        "ssd_cache": {"enabled": True, "dir": str(cache), "block_tokens": 16},
    }
    for name, values in sections.items():
        arguments[name] = {**arguments.get(name, {}), **values}
    company = Stage(parse(arguments), files)
    with tempfile.TemporaryDirectory() as folder:
        await company.start(Path(folder))
        try:
            yield company
        finally:
            await company.close()
