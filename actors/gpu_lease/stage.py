"""Puts the lease actor of a machine on the stage, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.gauges import Gauges
from actors.gpu_lease.actor import GpuLease
from actors.gpu_lease.journal import sweep
from actors.gpu_lease.messages import Acquire, Grant, Reserve, Reserved
from actors.models.folders import cache_folder
from actors.settings import LeaseSettings

NAMESPACE = "troupe"


def lease_here(settings: LeaseSettings) -> Any:
    """The handle of the lease actor of the node this is called on; starts the actor where there is none.

    Blocks for the answer of Ray's control store, milliseconds, not for the start. May be called by everyone on the
    node at once: Ray lets one of them start it, and the settings of that call count. The actor outlives its callers
    and is restarted for ever; Ray's dashboard lists it as GpuLease.

    Raises:
        OSError: the run folder cannot be made.
    """
    node = ray.get_runtime_context().get_node_id()
    folder = run_folder()
    sweep(folder)
    options: dict[str, Any] = {
        "name": lease_name(node),
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": -1,
        "max_task_retries": 0,
        "num_cpus": 0,
        "max_concurrency": 1000,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=node, soft=False),
    }
    return ray.remote(_published()).options(**options).remote(settings, folder / f"lease-{node}.json")


def _published() -> type[GpuLease]:
    """The lease actor with its figures as Ray metrics; the dashboard shows a class by its name."""

    class Published(GpuLease):
        _gauges: Gauges | None = None

        async def acquire(self, request: Acquire) -> Grant | None:
            self._publish()
            return await super().acquire(request)

        async def reserve(self, message: Reserve) -> Reserved:
            self._publish()
            return await super().reserve(message)

        def _publish(self) -> None:
            # With the first message, because the constructor runs before the event loop does.
            if self._gauges is None:
                self._gauges = Gauges("gpu_lease", self.statistics)

    Published.__name__ = Published.__qualname__ = GpuLease.__name__
    return Published


def lease_name(node_id: str) -> str:
    """The actor's name in the namespace `troupe`."""
    return f"GpuLease:{node_id[:8]}"


def run_folder() -> Path:
    """The user's folder for what outlives a process but not a server; made, and closed to others."""
    folder = cache_folder() / "run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder
