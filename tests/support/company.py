"""The whole company in this process, without Ray: the real actors on one event loop, a socket in front.

It starts in a fraction of a second, so that each of many models can have a server of its own.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai

from actors.embedding.actor import Embedder
from actors.generation.actor import GenerationScheduler
from actors.gpu_lease.actor import GpuLease
from actors.ingress.actor import Ingress
from actors.library.actor import Library
from actors.models.lineup import line_up
from actors.prompt_cache.actor import PromptCacheManager
from actors.responses.actor import ResponseStore
from actors.settings import LibrarySettings, Settings, parse
from actors.spill.actor import SpillWriter
from actors.transcription.host import SessionHost
from tests.support.handle import Handle
from tests.support.server import free_port

PATIENCE_S = 60.0


class Company:
    """A running one."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE_S)

    def async_client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE_S)


@contextmanager
def run_company(args: Mapping[str, Any]) -> Iterator[Company]:
    """The actors for a configuration's `args`, on a free port."""
    port = free_port()
    settings = parse({**args, "server": {**args.get("server", {}), "port": port}})
    up: Future[asyncio.Event] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(_live(settings, up)), name="company")
    thread.start()
    stop = up.result(PATIENCE_S)
    try:
        yield Company(port)
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the company did not end"


class _Bell(asyncio.Event):
    """An event that any thread may set."""

    def __init__(self) -> None:
        super().__init__()
        self._home = asyncio.get_running_loop()

    def set(self) -> None:
        self._home.call_soon_threadsafe(super().set)


async def _live(settings: Settings, up: Future[asyncio.Event]) -> None:
    """Start everybody, in the order of actors/app.py; end them when told to."""
    bell = _Bell()
    try:
        with tempfile.TemporaryDirectory() as folder:
            settings = _at_home(settings, Path(folder))
            lease = Handle(GpuLease(settings.gpu_lease, Path(folder) / "lease.json"))
            manager = PromptCacheManager(settings.prompt_cache)
            lineup = line_up(settings, progress=False)
            writer = scheduler = embedder = None
            if lineup.generates:
                if settings.ssd_cache.enabled:
                    writer = SpillWriter(settings.ssd_cache)
                scheduler = GenerationScheduler(
                    settings, lineup.served, Handle(manager), lambda: lease, "127.0.0.1", writer and Handle(writer)
                )
                await scheduler.start()
            if lineup.embedding is not None:
                embedder = Embedder(settings, lineup.embedding, lambda: lease, eager=not lineup.generates)
                await embedder.start()
            transcriber = SessionHost(settings, lambda: lease, "company", lineup.speech, lineup.transcribes)
            await transcriber.start()
            responses = Handle(ResponseStore(settings.responses))
            library = Library(LibrarySettings(state_dir=folder), settings.gpu_lease.memory_budget, Path(folder) / "hub")
            await library.start()
            ingress = Ingress(
                settings,
                lineup,
                Handle(scheduler),
                Handle(manager),
                lambda: lease,
                "company",
                responses,
                Handle(library),
                Handle(embedder),
                Handle(writer),
                Handle(transcriber),
            )
            await ingress.start()
            up.set_result(bell)
            await bell.wait()
            await ingress.stop()
            for actor in filter(None, (embedder, scheduler, transcriber, writer, library)):
                await actor.close()
            manager.close()
    except BaseException as error:
        if not up.done():
            up.set_exception(error)
        raise


def _at_home(settings: Settings, folder: Path) -> Settings:
    """The same, with the audio of sessions in this company's own folder unless it is said where."""
    if settings.audio_sessions.spool_dir is not None:
        return settings
    sessions = settings.audio_sessions.model_copy(update={"spool_dir": str(folder / "sessions")})
    return settings.model_copy(update={"audio_sessions": sessions})
