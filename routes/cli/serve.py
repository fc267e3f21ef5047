"""`troupe serve [CONFIG] [--model MODEL]`: the application of a config file, with a stop that loses nobody's answer.

`serve run` ends everything within a second of a SIGTERM. This launcher starts the same application, and on SIGTERM or
SIGINT refuses new requests, lets running ones finish, waits for the disk, and only then stops Serve and Ray. A second
signal ends it at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

from actors import settings as configuration
from actors.curtain import FAILED_MARK
from actors.generation.messages import Flushed
from actors.models.lineup import line_up
from actors.ray_environment import RAY_ENVIRONMENT
from actors.settings import Settings

FLUSH_GRACE_S = 5.0
"""How long a flush may take to answer after its own time is over."""

LOOK_S = 0.2
"""How often a start looks whether it is done, or to be stopped."""

_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")
"""States of an application that will not run."""

_DRAINED = ("GenerationScheduler", "Embedder", "Transcription")
"""The deployments that compute: running requests end in one of them."""

LEAST_CPUS = 4
"""Declared to Ray, whatever the machine has: the actors ask for hundredths, Serve's own for whole ones."""


def serve(config: Path, model: str | None = None) -> int:
    """Serve until a signal says stop; `model` goes over the configuration's. Returns the process's exit status.

    Raises:
        StartError: the configuration or the model does not allow a start.
    """
    settings = configuration.read(config)
    document = yaml.safe_load(config.read_text(encoding="utf-8"))
    application = document["applications"][0]
    if model is not None:
        application["args"] = {**(application.get("args") or {}), "model": model}
        settings = configuration.parse(application["args"])
    line_up(settings, progress=True)
    for name, value in RAY_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    name = application.get("name", "default")
    try:
        with _stage(document) as stop:
            if not _deploy(application, name, stop):
                raise _NotServed
            stop.wait()
            if not _is_serving(name):
                raise _NotServed  # stopped before it was ready, by a person or by an actor that could not start
            _drain(name, settings)
            _flush(name, settings)
    except _NotServed:
        return 1
    return 0


class _NotServed(Exception):
    """The start has come to nothing; why has been said."""


@contextlib.contextmanager
def _stage(document: dict[str, Any]) -> Iterator[threading.Event]:
    """Ray and Serve on this machine, for the length of the block. Yields the event that a signal sets."""
    import ray
    from ray import serve as ray_serve

    ray.init(
        address="local",
        num_cpus=max(LEAST_CPUS, os.cpu_count() or 1),
        include_dashboard=True,
        dashboard_host="127.0.0.1",
        namespace="serve",
    )
    stop = _signals()  # after ray.init, which installs handlers of its own
    try:
        ray_serve.start(
            proxy_location=document.get("proxy_location", "Disabled"), http_options=document.get("http_options") or {}
        )
        yield stop
        ray_serve.shutdown()
    finally:
        # Alone where the start failed: Serve would wait half a minute for actors that are stuck in theirs.
        ray.shutdown()


def _signals() -> threading.Event:
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            print("stopping at once", file=sys.stderr, flush=True)
            os._exit(128 + number)
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return stop


def _deploy(application: dict[str, Any], name: str, stop: threading.Event) -> bool:
    """Start the actors and wait for them, or for a signal. False when they failed; the reason has been printed."""
    from ray import serve as ray_serve

    from actors.app import build

    try:
        app = build(application.get("args") or {})
        target = ray_serve.RunTarget(app, name=name, route_prefix=application.get("route_prefix", "/"))
        # Serve's own waiting hears no signal, and in a thread it would outlive Ray and start another one.
        ray_serve.run_many([target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)
    except Exception as error:
        print(f"{FAILED_MARK} {error}", file=sys.stderr, flush=True)
        return False
    while not stop.wait(LOOK_S):
        state = ray_serve.status().applications.get(name)
        if state is not None and state.status.value == "RUNNING":
            return True
        if state is not None and state.status.value in _FAILED:
            print(f"{FAILED_MARK} {' '.join(state.message.split())}", file=sys.stderr, flush=True)
            return False
    return True


def _is_serving(name: str) -> bool:
    """Whether there is somebody to drain: a signal may come while the model loads."""
    return bool(_running(name))


def _running(name: str) -> list[str]:
    """The deployments of `_DRAINED` that have a living replica."""
    from ray import serve as ray_serve

    application = ray_serve.status().applications.get(name)
    found: list[str] = []
    for deployment in _DRAINED:
        status = application.deployments.get(deployment) if application else None
        states: dict[Any, int] = dict(status.replica_states) if status else {}
        if states.get("RUNNING", 0) > 0:
            found.append(deployment)
    return found


def _drain(name: str, settings: Settings) -> None:
    from ray import serve as ray_serve

    print("Stopping: no new requests; running ones may finish.", file=sys.stderr, flush=True)
    limit = settings.server.drain_timeout_s
    ends = time.monotonic() + limit
    draining = [ray_serve.get_deployment_handle(actor, name).drain.remote() for actor in _running(name)]
    try:
        for response in draining:
            response.result(timeout_s=max(0.0, ends - time.monotonic()))
    except TimeoutError:
        print(f"Some requests did not finish within {limit:g} s.", file=sys.stderr, flush=True)
    except Exception as error:
        print(f"The server could not be drained: {error}", file=sys.stderr, flush=True)


def _flush(name: str, settings: Settings) -> None:
    """Make every stored prefix durable, or say what is lost."""
    from ray import serve as ray_serve

    if not settings.ssd_cache.enabled or "GenerationScheduler" not in _running(name):
        return
    limit = settings.ssd_cache.flush_timeout_s
    try:
        scheduler = ray_serve.get_deployment_handle("GenerationScheduler", name)
        flushed: Flushed = scheduler.flush.remote(limit).result(timeout_s=limit + FLUSH_GRACE_S)
    except Exception as error:
        print(f"Stored prefixes could not be flushed: {error or type(error).__name__}", file=sys.stderr, flush=True)
        return
    lost = flushed.pending_snapshots + flushed.missing_snapshots
    if lost:
        print(f"{lost} stored prefixes are not on the disk and are lost.", file=sys.stderr, flush=True)
