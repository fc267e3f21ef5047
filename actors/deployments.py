"""What stands around each actor as a Serve deployment: it starts the actor, passes messages on, asks for its health,
publishes its figures and stops it. The actors themselves are imported in their own processes only.
"""

from __future__ import annotations

import ipaddress
from abc import ABC, abstractmethod
from contextlib import aclosing
from typing import Any

import ray
from ray import serve

from actors import curtain, logs, priority
from actors.models.card import ModelCard
from actors.models.embedding_card import EmbeddingCard
from actors.models.lineup import Lineup
from actors.models.whisper_card import WhisperCard
from actors.settings import Settings


class Deployment(ABC):
    """What every deployment does at its end."""

    _gauges: Any = None

    @abstractmethod
    async def close(self) -> None:
        """Stop the actor. Called once, and only if it came up."""

    async def __del__(self) -> None:
        if self._gauges is None:
            return  # it never came up, so there is nothing to take down
        self._gauges.close()
        await self.close()


class Scheduler(Deployment):
    """Deployment of the generation scheduler."""

    async def __init__(self, settings: Settings, card: ModelCard, manager: Any, writer: Any) -> None:
        from actors.gauges import Gauges
        from actors.generation.actor import GenerationScheduler
        from actors.gpu_lease.stage import lease_here

        logs.configure(settings.logging)
        priority.claim()
        self.actor = GenerationScheduler(
            settings, card, manager, lambda: lease_here(settings.gpu_lease), _mailbox_host(), writer
        )
        with curtain.falls_on_failure():
            await self.actor.start()
        self._gauges = Gauges("generation_scheduler", self.actor.statistics)

    def check_health(self) -> None:
        self.actor.check_health()

    async def describe(self) -> Any:
        return await self.actor.describe()

    async def compile(self, constraint: Any) -> Any:
        return await self.actor.compile(constraint)

    async def submit(self, request: Any) -> Any:
        return await self.actor.submit(request)

    async def statistics(self) -> Any:
        return await self.actor.statistics()

    async def flush(self, timeout_s: float) -> Any:
        return await self.actor.flush(timeout_s)

    async def drain(self) -> None:
        await self.actor.drain()

    async def close(self) -> None:
        await self.actor.close()


class Manager(Deployment):
    """Deployment of the prompt-cache manager."""

    async def __init__(self, settings: Settings) -> None:
        from actors.gauges import Gauges
        from actors.prompt_cache.actor import PromptCacheManager

        logs.configure(settings.logging)
        self.actor = PromptCacheManager(settings.prompt_cache)
        self._gauges = Gauges("prompt_cache_manager", self.actor.statistics)

    async def lookup(self, message: Any) -> Any:
        return await self.actor.lookup(message)

    async def unpin(self, message: Any) -> None:
        await self.actor.unpin(message)

    async def publish(self, message: Any) -> Any:
        return await self.actor.publish(message)

    async def reconcile(self, message: Any) -> Any:
        return await self.actor.reconcile(message)

    async def sweep(self, message: Any) -> Any:
        return await self.actor.sweep(message)

    async def discard(self, message: Any) -> None:
        await self.actor.discard(message)

    async def close_session(self, session: str) -> None:
        await self.actor.close_session(session)

    async def statistics(self) -> Any:
        return await self.actor.statistics()

    async def close(self) -> None:
        self.actor.close()


class SpillWriter(Deployment):
    """Deployment of the SSD writer."""

    async def __init__(self, settings: Settings) -> None:
        from actors.gauges import Gauges
        from actors.spill.actor import SpillWriter

        logs.configure(settings.logging)
        self.actor = SpillWriter(settings.ssd_cache)
        self._gauges = Gauges("spill_writer", self.actor.statistics)

    async def attach(self, message: Any) -> Any:
        return await self.actor.attach(message)

    async def write(self, message: Any) -> Any:
        return await self.actor.write(message)

    async def touch(self, message: Any) -> None:
        await self.actor.touch(message)

    async def set_aside(self, message: Any) -> None:
        await self.actor.set_aside(message)

    async def remove(self, message: Any) -> None:
        await self.actor.remove(message)

    async def statistics(self) -> Any:
        return await self.actor.statistics()

    async def close(self) -> None:
        await self.actor.close()


class Embedder(Deployment):
    """Deployment of the embedder."""

    async def __init__(self, settings: Settings, card: EmbeddingCard, eager: bool) -> None:
        from actors.embedding.actor import Embedder
        from actors.gauges import Gauges
        from actors.gpu_lease.stage import lease_here

        logs.configure(settings.logging)
        self.actor = Embedder(settings, card, lambda: lease_here(settings.gpu_lease), eager)
        with curtain.falls_on_failure():
            await self.actor.start()
        self._gauges = Gauges("embedder", self.actor.statistics)

    def check_health(self) -> None:
        self.actor.check_health()

    async def embed(self, request: Any) -> Any:
        return await self.actor.embed(request)

    async def cancel(self, message: Any) -> None:
        await self.actor.cancel(message)

    async def statistics(self) -> Any:
        return await self.actor.statistics()

    async def drain(self) -> None:
        await self.actor.drain()

    async def close(self) -> None:
        await self.actor.close()


class Library(Deployment):
    """Deployment of the library."""

    async def __init__(self, settings: Settings) -> None:
        from actors.gauges import Gauges
        from actors.library.actor import Library

        logs.configure(settings.logging)
        self.actor = Library(settings.library, settings.gpu_lease.memory_budget)
        await self.actor.start()
        self._gauges = Gauges("library", self.actor.statistics)

    async def models(self, refresh: bool) -> Any:
        return await self.actor.models(refresh)

    async def fit(self, question: Any) -> Any:
        return await self.actor.fit(question)

    async def note_rate(self, rate: Any) -> None:
        await self.actor.note_rate(rate)

    async def downloads(self) -> Any:
        return await self.actor.downloads()

    async def download(self, repository: str) -> Any:
        return await self.actor.download(repository)

    async def search(self, query: str) -> Any:
        return await self.actor.search(query)

    async def plan_gc(self, used: Any) -> Any:
        return await self.actor.plan_gc(used)

    async def execute_gc(self, used: Any) -> Any:
        return await self.actor.execute_gc(used)

    async def has_token(self) -> bool:
        return await self.actor.has_token()

    async def save_token(self, token: str) -> Any:
        return await self.actor.save_token(token)

    async def forget_token(self) -> Any:
        return await self.actor.forget_token()

    async def statistics(self) -> Any:
        return await self.actor.statistics()

    async def close(self) -> None:
        await self.actor.close()


class Transcriber(Deployment):
    """Deployment of the transcriber."""

    async def __init__(self, settings: Settings, card: WhisperCard | None, eager: bool) -> None:
        from actors.gauges import Gauges
        from actors.gpu_lease.stage import lease_here
        from actors.transcription.host import SessionHost

        logs.configure(settings.logging)
        replica = serve.get_replica_context().replica_tag
        self.actor = SessionHost(settings, lambda: lease_here(settings.gpu_lease), replica, card, eager)
        self._node = float(int(ray.get_runtime_context().get_node_id()[:8], 16))
        with curtain.falls_on_failure():
            await self.actor.start()
        self._gauges = Gauges("transcriber", self.actor.statistics)
        self._session_gauges = Gauges("audio_sessions", self.actor.sessions.statistics)

    def check_health(self) -> None:
        self.actor.check_health()

    async def transcribe(self, request: Any) -> Any:
        async with aclosing(self.actor.transcribe(request)) as events:
            async for event in events:
                yield event

    async def open_session(self, message: Any) -> Any:
        return await self.actor.open_session(message)

    async def append_audio(self, message: Any) -> Any:
        return await self.actor.append_audio(message)

    async def follow_session(self, message: Any) -> Any:
        return await self.actor.follow_session(message)

    async def finish_session(self, message: Any) -> Any:
        return await self.actor.finish_session(message)

    async def discard_session(self, message: Any) -> Any:
        return await self.actor.discard_session(message)

    def record_autoscaling_stats(self) -> dict[str, float]:
        """What the autoscaler follows."""
        return {"sessions": float(self.actor.sessions.count), "started": self.actor.started, "node": self._node}

    def record_routing_stats(self) -> dict[str, Any]:
        """What decides where new sessions go."""
        return {"sessions": self.actor.sessions.count, "started": self.actor.started}

    async def unload(self) -> Any:
        return await self.actor.unload()

    async def statistics(self) -> Any:
        return await self.actor.statistics()

    async def drain(self) -> None:
        await self.actor.drain()

    async def close(self) -> None:
        self._session_gauges.close()
        await self.actor.close()


class ResponseStore(Deployment):
    """Deployment of the response store."""

    async def __init__(self, settings: Settings) -> None:
        from actors.gauges import Gauges
        from actors.responses.actor import ResponseStore

        logs.configure(settings.logging)
        self.actor = ResponseStore(settings.responses)
        self._gauges = Gauges("response_store", self.actor.statistics)

    async def keep(self, message: Any) -> Any:
        return await self.actor.keep(message)

    async def thread(self, response_id: Any) -> Any:
        return await self.actor.thread(response_id)

    async def find(self, response_id: Any) -> Any:
        return await self.actor.find(response_id)

    async def holding(self, items: Any) -> Any:
        return await self.actor.holding(items)

    async def forget(self, response_id: Any) -> bool:
        return await self.actor.forget(response_id)

    async def statistics(self) -> Any:
        return await self.actor.statistics()

    async def close(self) -> None:
        """What it holds ends with it."""


class Ingress(Deployment):
    """Deployment of the ingress."""

    async def __init__(
        self,
        settings: Settings,
        lineup: Lineup,
        scheduler: Any,
        manager: Any,
        responses: Any,
        library: Any,
        embedder: Any,
        writer: Any,
        transcriber: Any,
    ) -> None:
        from actors.gauges import Gauges
        from actors.gpu_lease.stage import lease_here
        from actors.ingress.actor import Ingress
        from actors.transcription.replicas import replicas

        logs.configure(settings.logging)
        replica = serve.get_replica_context().replica_tag
        self.actor = Ingress(
            settings,
            lineup,
            scheduler,
            manager,
            lambda: lease_here(settings.gpu_lease),
            replica,
            responses,
            library,
            embedder,
            writer,
            transcriber,
            lambda: replicas(transcriber.app_name, transcriber.deployment_name),
        )
        with curtain.falls_on_failure():
            await self.actor.start()
        self._gauges = Gauges("ingress", self.actor.statistics)
        curtain.announce(settings, lineup.served)

    def check_health(self) -> None:
        self.actor.check_health()

    def record_autoscaling_stats(self) -> dict[str, float]:
        """What the autoscaler follows: requests do not come through Serve, so it cannot count them itself."""
        return {"open_requests": float(self.actor.open_requests)}

    async def __call__(self) -> str:
        return "requests come through the server's own port"

    async def close(self) -> None:
        await self.actor.stop()


def _mailbox_host() -> str:
    """This node's address as the other nodes know it; loopback while Ray is on loopback."""
    address = ray.util.get_node_ip_address()
    return "127.0.0.1" if ipaddress.ip_address(address).is_loopback else address
