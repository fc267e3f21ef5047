"""A real Troupe for a test: its own Ray, its own port, its own configuration, and no process left behind."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import yaml

from actors.ray_environment import RAY_ENVIRONMENT

ROOT = Path(__file__).parents[2]
START_PATIENCE_S = 240.0
END_PATIENCE_S = 60.0
READY = "Troupe is ready:"
BROKEN = "Deploying app 'troupe' failed"
"""What Serve says of a start that cannot succeed any more, although it goes on waiting."""


PORTS = range(20_000, 32_000)
"""Of these no system gives one to whoever asks for any, as Ray's processes do by the dozen while a server starts."""


def free_port() -> int:
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as sock, suppress(OSError):  # taken: try another
            sock.bind(("127.0.0.1", port))
            return port


class Server:
    """A running server, or one that failed to start (`ready` is False)."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._family: dict[int, psutil.Process] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip())
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def wait_for_line(self, text: str, patience_s: float = START_PATIENCE_S) -> bool:
        """Whether a line with `text` came before the process ended or its start failed."""

        def settled() -> bool:
            return text in self.log or BROKEN in self.log or not self._reader.is_alive()

        with self._changed:
            self._changed.wait_for(settled, patience_s)
        return text in self.log

    def family(self) -> list[psutil.Process]:
        """Every process of this server that lives, itself included."""
        try:
            root = psutil.Process(self.process.pid)
            self._family.update({process.pid: process for process in [root, *root.children(recursive=True)]})
        except psutil.NoSuchProcess:
            pass  # what it left behind is in the family already
        return [p for p in self._family.values() if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def actors(self, name: str) -> list[psutil.Process]:
        """The living processes of an actor, found by the title that any process list shows."""
        return [process for process in self.family() if name in _title(process)]

    def actor(self, name: str) -> psutil.Process:
        """The one living process of an actor."""
        found = self.actors(name)
        assert len(found) == 1, f"processes called {name}: {found}"
        return found[0]

    def statistics(self) -> dict[str, Any]:
        return httpx.get(f"{self.url}/stats", timeout=30).json()["troupe"]

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=120)

    def async_client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=120)

    def http(self, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=120, limits=httpx.Limits(max_connections=None), **options)

    def end(self) -> None:
        family = self.family()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        for process in [*family, *self.family()]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait(END_PATIENCE_S)
        self._reader.join(END_PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


def _title(process: psutil.Process) -> str:
    try:
        return "".join(process.cmdline()[:1])
    except psutil.NoSuchProcess:
        return ""


@contextmanager
def run_server(
    args: Mapping[str, Any] | None = None, *, launcher: str = "serve", expect_ready: bool = True
) -> Iterator[Server]:
    """configs/local.yaml on a free port, with `args` merged over its own.

    Args:
        args: settings by section.
        launcher: `serve` for `serve run`, `troupe` for `troupe serve`.
        expect_ready: False returns as soon as the start has failed or succeeded.
    """
    port = free_port()
    document = yaml.safe_load((ROOT / "configs/local.yaml").read_text(encoding="utf-8"))
    settings = document["applications"][0]["args"]
    settings["server"]["port"] = port
    for section, values in (args or {}).items():
        settings[section] = {**settings.get(section, {}), **values} if isinstance(values, Mapping) else values
    # Short, because the path of a Unix socket may have 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="troupe-") as folder:
        settings["ssd_cache"] = {"dir": f"{folder}/prefixes", **settings.get("ssd_cache", {})}
        settings["library"] = {"state_dir": f"{folder}/state", **settings.get("library", {})}
        settings["audio_sessions"] = {"spool_dir": f"{folder}/sessions", **settings.get("audio_sessions", {})}
        config = Path(folder) / "config.yaml"
        config.write_text(yaml.safe_dump(document), encoding="utf-8")
        server = Server(_launch(launcher, config, folder), port)
        try:
            ready = server.wait_for_line(READY)
            assert ready or not expect_ready, server.log
            yield server
        finally:
            server.end()


def _launch(launcher: str, config: Path, folder: str) -> subprocess.Popen[str]:
    script = Path(sys.executable).parent / launcher
    command = [str(script), "run" if launcher == "serve" else "serve", str(config)]
    environment = {**os.environ, **RAY_ENVIRONMENT, "RAY_ADDRESS": "local", "RAY_TMPDIR": folder}
    environment["PATH"] = f"{script.parent}{os.pathsep}{environment['PATH']}"
    # The engine alone gets OpenBLAS; the test run may have it preloaded.
    environment.pop("LD_PRELOAD", None)
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
