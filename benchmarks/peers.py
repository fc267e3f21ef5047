"""The servers that are compared, each started as its users start it, with the same model and the same BLAS."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psutil

from actors import blas
from actors.settings import GenerationSettings
from benchmarks.client import Client
from tests.support.server import free_port, run_server

_START_PATIENCE_S = 120.0
_END_PATIENCE_S = 20.0


class Running(Protocol):
    """A server that answers."""

    @property
    def port(self) -> int: ...

    def family(self) -> list[psutil.Process]:
        """Its processes, itself included."""
        ...


@contextmanager
def troupe(folder: Path, rows: int) -> Iterator[Running]:
    """Troupe under `serve run`: configs/local.yaml with this model, on a free port.

    Raises:
        AssertionError: it did not start; the message is its log.
    """
    with run_server({"model": str(folder), "generation": {"max_rows": rows}}) as server:
        yield server


@contextmanager
def mlx_lm_server(folder: Path, rows: int) -> Iterator[Running]:
    """mlx-lm's own server, on its default settings, which allow 32 rows.

    Raises:
        RuntimeError: it did not start; the message is its log.
    """
    if rows > 32:
        raise ValueError(f"mlx_lm.server decodes 32 rows together, not {rows}")
    port = free_port()
    command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(folder), "--host", "127.0.0.1"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], env=engine_environment(), stdout=log, stderr=subprocess.STDOUT
        )
        try:
            if not _answers(process, port):
                log.seek(0)
                raise RuntimeError(f"mlx_lm.server did not start:\n{log.read().decode(errors='replace')}")
            yield _Alone(process, port)
        finally:
            _end(process)


SIDES = {"Troupe": troupe, "mlx_lm.server": mlx_lm_server}


def client(server: Running) -> Client:
    return Client("127.0.0.1", server.port)


def engine_environment() -> dict[str, str]:
    """What Troupe gives to the process that runs MLX, for those that compare with it."""
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    return {**environment, **blas.engine_environment(GenerationSettings())}


class _Alone:
    """A server of one process."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.port = port
        self._process = process

    def family(self) -> list[psutil.Process]:
        root = psutil.Process(self._process.pid)
        return [root, *root.children(recursive=True)]


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the server is healthy. False when it ended or took too long."""
    deadline = time.monotonic() + _START_PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as response:
                return response.status == 200
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
