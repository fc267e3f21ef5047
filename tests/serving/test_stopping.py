"""`troupe serve` stops without losing an answer."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import checkpoints
from tests.support.server import run_server

# The tiny model answers this with thousands of tokens.
BODY: Any = {"model": "any", "prompt": "story", "temperature": 0, "max_tokens": 1500}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_refuses_new_requests_and_lets_running_ones_finish(number: int, tmp_path: Path) -> None:
    model = str(checkpoints.tiny_llama(tmp_path / "tiny"))
    settings = {"model": model, "server": {"drain_timeout_s": 120}}
    with run_server(settings, launcher="troupe") as server, ThreadPoolExecutor(1) as pool:
        begun = threading.Event()

        def stream() -> int:
            tokens = 0
            with server.client() as client:
                for chunk in client.completions.create(stream=True, **BODY):
                    begun.set()
                    if chunk.usage is not None:
                        tokens = chunk.usage.completion_tokens
            return tokens

        running = pool.submit(stream)
        assert begun.wait(60)
        server.process.send_signal(number)
        assert server.wait_for_line("Stopping:", 60)
        refused = _refused(server.url)
        assert refused.status_code == 503
        assert refused.json()["error"]["type"] == "shutting_down"
        assert running.result(120) == 1500
        assert server.process.wait(120) == 0
        assert "Traceback" not in server.log
        assert server.family() == []


def _refused(url: str) -> httpx.Response:
    """The first answer after the scheduler has heard of the stop."""
    for _ in range(200):
        answer = httpx.post(f"{url}/v1/completions", json=BODY | {"max_tokens": 1}, timeout=60)
        if answer.status_code != 200:
            return answer
    raise AssertionError("requests were still accepted")
