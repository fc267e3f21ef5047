"""The first and the last thing a person sees of a start: one line when it is ready, one sentence when it fails.

`serve run` itself would show a failed start as stack traces and then wait for ever. So the process that notices the
failure prints the sentence and terminates the `serve run` (or `troupe serve`) that started this Ray, if there is
one on this machine: Ray's raylet is its child and our parent.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from ray._private import ray_constants
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put

from actors.errors import StartError
from actors.models.card import ModelCard
from actors.settings import Settings

READY_MARK = "Troupe is ready:"
FAILED_MARK = "Troupe cannot start:"

_EXIT_PATIENCE_S = 120.0


def announce(settings: Settings, card: ModelCard) -> None:
    """Print the readiness line."""
    dashboard = _dashboard_url()
    where = f"dashboard {dashboard}" if dashboard else "no dashboard"
    url = f"http://{_shown(settings.server.host)}:{settings.server.port}"
    print(f"{READY_MARK} {url} serves {card.model_id} ({where})", file=sys.stderr, flush=True)


def _dashboard_url() -> str | None:
    """Where the dashboard really listens; None without one.

    A worker's own `get_dashboard_url` names the usual port, also when that was taken and Ray went to another one.
    """
    namespace = ray_constants.KV_NAMESPACE_DASHBOARD
    address = _internal_kv_get(ray_constants.DASHBOARD_ADDRESS, namespace=namespace)
    if not address:
        return None
    text = address.decode()
    return text if text.startswith("http") else f"http://{text}"


@contextlib.contextmanager
def falls_on_failure() -> Iterator[None]:
    """Within the block a `StartError` ends the whole start: one sentence, then the launcher is terminated."""
    try:
        yield
    except StartError as error:
        if not _first_to_fail():
            # Another actor has said why, and ends the start.
            time.sleep(_EXIT_PATIENCE_S)
            raise
        for line in error.message.splitlines():
            print(f"{FAILED_MARK} {line}", file=sys.stderr, flush=True)
        launcher = _launcher()
        if launcher is not None:
            # Ray copies our stderr to the launcher's terminal; give the line the time to get there.
            time.sleep(1.0)
            # Not SIGINT: a launcher that a shell put into the background ignores it, and `serve run` takes it for a
            # wish and exits with 0.
            launcher.terminate()
            # Failing now would only add stack traces; the launcher takes us down.
            time.sleep(_EXIT_PATIENCE_S)
        raise


def _first_to_fail() -> bool:
    """Whether this is the first actor of this Ray whose start fails: a broken model stops several, one speaks."""
    return not _internal_kv_put(b"troupe:start-failed", str(os.getpid()), overwrite=False)


def _launcher() -> psutil.Process | None:
    """The process that started this machine's Ray and still waits, when it is one of those that end with it."""
    try:
        for ancestor in psutil.Process(os.getpid()).parents():
            command = ancestor.cmdline()
            if is_launcher(command):
                return ancestor
    except psutil.Error:
        return None
    return None


def is_launcher(command: list[str]) -> bool:
    """Whether a command line is `serve run …` or `troupe serve …`, directly or under an interpreter."""
    for position, word in enumerate(command[:2]):
        if (Path(word).name, *command[position + 1 : position + 2]) in (("serve", "run"), ("troupe", "serve")):
            return True
    return False


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
