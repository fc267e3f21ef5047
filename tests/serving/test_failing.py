"""When something dies: who notices, and what goes on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support import checkpoints
from tests.support.server import Server, run_server

PROMPT: Any = {"model": "any", "prompt": "abc", "max_tokens": 2000, "temperature": 0}
RECOVERY_S = 120.0


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[Server]:
    with run_server({"model": str(checkpoints.tiny_llama(tmp_path / "tiny"))}) as server:
        yield server


def short(server: Server) -> str:
    with server.client() as client:
        return client.completions.create(**(PROMPT | {"max_tokens": 8})).choices[0].text


def stream_lines(server: Server, begun: threading.Event) -> list[str]:
    lines = []
    body = PROMPT | {"stream": True, "max_tokens": None}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=RECOVERY_S) as answer:
        for line in answer.iter_lines():
            lines.append(line)
            if len(lines) > 20:
                begun.set()
    return lines


def kill(server: Server, actor: str) -> int:
    process = server.actor(actor)
    process.send_signal(signal.SIGKILL)
    return process.pid


def test_a_killed_scheduler_ends_its_streams_in_words_and_comes_back(fragile: Server) -> None:
    expected = short(fragile)
    begun = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        stream = pool.submit(stream_lines, fragile, begun)
        assert begun.wait(RECOVERY_S)
        pid = kill(fragile, "GenerationScheduler")
        lines = [line for line in stream.result(RECOVERY_S) if line]
    assert '"error"' in lines[-1]
    assert "engine_unavailable" in lines[-1]
    assert "[DONE]" not in lines[-1]
    # The very next request waits for the restart and is answered.
    assert short(fragile) == expected
    assert fragile.actor("GenerationScheduler").pid != pid
    assert fragile.statistics()["scheduler"]["finished_rows"] == 1, "its counters started again"


def test_a_killed_manager_costs_nothing_but_warm_prefixes(fragile: Server) -> None:
    expected = short(fragile)
    kill(fragile, "PromptCacheManager")
    assert short(fragile) == expected
    assert short(fragile) == expected


def test_a_killed_lease_is_a_pause(fragile: Server) -> None:
    expected = short(fragile)
    begun = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        stream = pool.submit(stream_limited, fragile, begun)
        assert begun.wait(RECOVERY_S)
        kill(fragile, "ray::GpuLease")
        text = stream.result(RECOVERY_S)
    assert text.startswith(expected)
    assert short(fragile) == expected


def stream_limited(server: Server, begun: threading.Event) -> str:
    text = ""
    with server.client() as client:
        for chunk in client.completions.create(stream=True, **(PROMPT | {"max_tokens": 1500})):
            text += chunk.choices[0].text
            begun.set()
    return text


def test_a_killed_ingress_comes_back_and_its_rows_are_cancelled(fragile: Server) -> None:
    expected = short(fragile)
    begun = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        stream = pool.submit(stream_lines, fragile, begun)
        assert begun.wait(RECOVERY_S)
        kill(fragile, "Ingress")
        with pytest.raises(httpx.HTTPError):
            stream.result(RECOVERY_S)
    answered = _patiently(fragile)
    assert answered == expected
    assert fragile.statistics()["scheduler"]["cancelled_rows"] == 1


def _patiently(server: Server) -> str:
    """The answer once the port is open again."""
    deadline = threading.Event()
    for _ in range(240):
        try:
            return short(server)
        except openai.APIConnectionError:
            deadline.wait(0.5)
    raise AssertionError("the ingress did not come back")


def test_a_row_that_makes_the_model_raise_is_the_only_one_that_fails(tmp_path: Path) -> None:
    path = checkpoints.failing(tmp_path / "failing", token="!")
    settings = {"model": str(path), "generation": {"trust_model_code": True}}
    with run_server(settings) as server, ThreadPoolExecutor(3) as pool:
        expected = short(server)
        begun = threading.Event()
        beside = pool.submit(stream_limited, server, begun)
        assert begun.wait(RECOVERY_S)
        body = {"prompt": "oh!no", "max_tokens": 8}
        answer = httpx.post(f"{server.url}/v1/completions", json=body, timeout=RECOVERY_S)
        assert answer.status_code == 500
        assert "this token is poison" in answer.json()["error"]["message"]
        assert "Traceback" not in answer.text
        assert beside.result(RECOVERY_S).startswith(expected)
        assert short(server) == expected
