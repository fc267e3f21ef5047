"""Ray's dashboard and metrics of a server with two doors, started while the dashboard's usual port is taken."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import checkpoints
from tests.support.server import Server, run_server
from tests.support.talk import CHAT, chat_body
from tests.support.waiting import eventually

USUAL_PORT = 8265
TOKEN = Path.home() / ".ray/auth_token"
ACTORS = {
    "ServeReplica:troupe:Ingress": 2,
    "ServeReplica:troupe:GenerationScheduler": 1,
    "ServeReplica:troupe:PromptCacheManager": 1,
    "ServeReplica:troupe:Transcription": 1,
    "GpuLease": 1,
}
FIGURES = (
    "ray_troupe_generation_scheduler_waiting_rows",
    "ray_troupe_generation_scheduler_oldest_wait_s",
    "ray_troupe_generation_scheduler_lease_wait_s",
    "ray_troupe_generation_scheduler_lease_hold_s",
    "ray_troupe_generation_scheduler_tokens_per_s",
    "ray_troupe_generation_scheduler_mailbox_depth",
    "ray_troupe_prompt_cache_manager_hits",
    "ray_troupe_prompt_cache_manager_size",
    "ray_troupe_ingress_open_requests",
    "ray_troupe_gpu_lease_mailbox_depth",
    "ray_troupe_audio_sessions_open_sessions",
)


@contextlib.contextmanager
def taken(port: int) -> Iterator[None]:
    """Within the block nobody else gets this port."""
    with socket.socket() as sock:
        with contextlib.suppress(OSError):  # somebody has it already, which serves as well
            sock.bind(("127.0.0.1", port))
            sock.listen()
        yield


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    model = str(checkpoints.tiny_llama(tmp_path_factory.mktemp("tiny")))
    settings = {"model": model, "ingress": {"min_replicas": 2, "max_replicas": 2}}
    with taken(USUAL_PORT), run_server(settings) as running:
        yield running


@pytest.fixture
async def dashboard(company: Server) -> AsyncIterator[httpx.AsyncClient]:
    """The dashboard where Ray itself says it is, with the token that the README tells of."""
    started = re.search(r"View the dashboard at \S*?(http://[0-9.:]+)", company.log)
    assert started is not None
    token = TOKEN.read_text(encoding="utf-8").strip() if TOKEN.exists() else ""
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=started[1], headers=headers, timeout=60) as http:
        yield http


def test_the_readiness_line_leads_to_the_dashboard(company: Server, dashboard: httpx.AsyncClient) -> None:
    (line,) = [line for line in company.lines if "Troupe is ready:" in line]
    assert str(dashboard.base_url) in line


async def test_the_dashboard_lists_every_actor_by_its_name(company: Server, dashboard: httpx.AsyncClient) -> None:
    answer = await dashboard.get("/api/v0/actors")
    assert answer.status_code == 200, answer.text
    actors: list[dict[str, Any]] = answer.json()["data"]["result"]["result"]
    for name, number in ACTORS.items():
        pids = {actor["pid"] for actor in actors if actor["class_name"] == name and actor["state"] == "ALIVE"}
        assert pids == {process.pid for process in company.actors(f"ray::{name}")}
        assert len(pids) == number


async def metrics_of(target: str) -> str:
    """What a metrics endpoint says; nothing when it is gone. Some are on fixed ports that every Ray names."""
    async with httpx.AsyncClient(timeout=60) as http:
        try:
            return (await http.get(f"http://{target}/metrics")).text
        except httpx.TransportError:
            return ""


async def test_rays_metrics_carry_the_figures_of_every_actor(dashboard: httpx.AsyncClient) -> None:
    missing = list(FIGURES)

    async def published() -> bool:
        for place in (await dashboard.get("/api/prometheus/sd")).json():
            for target in place["targets"]:
                text = await metrics_of(target)
                missing[:] = [name for name in missing if not re.search(rf"^{name}\{{", text, re.MULTILINE)]
        return not missing

    with contextlib.suppress(TimeoutError):
        await eventually(published, 40)
    assert missing == []


async def doors(company: Server) -> set[str]:
    """The replicas that answer, each asked over connections of their own."""
    found: set[str] = set()
    for _ in range(20):
        async with company.http() as http:
            found.add((await http.get("/stats")).json()["troupe"]["ingress"]["replica"])
    return found


async def test_two_doors_share_the_port_and_the_scheduler(company: Server) -> None:
    assert len(await doors(company)) == 2
    texts: set[str] = set()
    for _ in range(20):
        async with company.http() as http:
            answer = await http.post(CHAT, json=chat_body("hello", max_tokens=4))
            assert answer.status_code == 200
            texts.add(answer.json()["choices"][0]["message"]["content"])
    assert len(texts) == 1
