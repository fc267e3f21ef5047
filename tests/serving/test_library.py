"""The library as an actor on Ray: a download that outlives its process, and what the server then knows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from tests.actors.models.loopback_hub import serving
from tests.support.server import Server, run_server
from tests.support.talk import CHAT, chat_body
from tests.support.waiting import eventually

LIBRARY = "ray::ServeReplica:troupe:Library"
REPO = "acme/tiny"
SIZE = 24 * 2**20
"""Of the weights; the hub's client takes them in pieces of ten million bytes."""


@pytest.fixture(scope="module")
def hold() -> Event:
    """Set, it lets the hub send the second half of the weights."""
    return Event()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, tiny: Callable[[str], Path], hold: Event) -> Iterator[Server]:
    """A server on a tiny model, with a hub and a cache of its own."""
    root = tmp_path_factory.mktemp("library")
    folder = root / "site" / REPO
    folder.mkdir(parents=True)
    for path in tiny("llama").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    header = json.dumps({"t": {"dtype": "U8", "shape": [SIZE], "data_offsets": [0, SIZE]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + os.urandom(SIZE))
    with serving(root / "site", hold=hold) as hub, pytest.MonkeyPatch.context() as environment:
        for name, value in {"HF_ENDPOINT": hub.address, "HF_HUB_CACHE": str(root / "hub")}.items():
            environment.setenv(name, value)
        with run_server({"model": str(tiny("llama"))}) as server:
            yield server


async def test_a_download_survives_the_library_and_ends_in_the_list_of_models(running: Server, hold: Event) -> None:
    async with running.http() as http:
        (served,) = (await http.get("/v1/models")).json()["data"]
        assert (await http.post("/api/hub/download", json={"repo": REPO})).json()["started"] is True
        half = await eventually(lambda: row(http, lambda one: one["received_bytes"] > 10_000_000))
        assert (half["state"], half["current_file"]) == ("active", "model.safetensors")
        assert (await http.post("/api/hub/download", json={"repo": REPO})).status_code == 409

        first = running.actor(LIBRARY)
        first.kill()
        assert (await http.post(CHAT, json=chat_body("hello", max_tokens=2))).status_code == 200
        ended = await eventually(lambda: row(http, lambda one: one["state"] != "active"))
        assert (ended["state"], ended.get("error")) == ("done", None)
        assert ended["received_bytes"] == ended["total_bytes"] > SIZE
        assert ended["started_at"] == half["started_at"]
        assert running.actor(LIBRARY).pid != first.pid

        models = (await http.get("/v1/models")).json()["data"]
        assert [model["id"] for model in models] == [served["id"], REPO]
        (entry,) = (await http.get("/library?refresh=1")).json()["models"]
        assert (entry["repo_id"], entry["serving"], entry["supported"]) == (REPO, False, True)
        assert (await http.get("/api/gc/plan")).json() == {"ok": True, "superseded": [], "reclaim_bytes": 0}


async def test_a_rate_that_was_measured_goes_over_the_estimate(running: Server) -> None:
    async with running.http() as http:
        fit = (await http.get("/fit")).json()
        assert fit["measured_decode_tps"] is None
        assert fit["report"]["fits"] is True
        await http.post(CHAT, json=chat_body("hello", max_tokens=200, temperature=0, logit_bias={"256": -100}))

        async def measured() -> float | None:
            return (await http.get("/fit")).json()["measured_decode_tps"]

        assert await eventually(measured) > 0


async def row(http: httpx.AsyncClient, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    """The newest download once it is as wanted; None before, and while the library is away."""
    response = await http.get("/downloads")
    if response.status_code != 200:
        return None
    newest = response.json()["downloads"][0]
    return newest if wanted(newest) else None
