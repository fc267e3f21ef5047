"""The library's routes over a real library, with a hub's cache on disk and a hub on loopback."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from huggingface_hub import constants

from actors.library.actor import Library
from actors.library.client import LibraryClient
from actors.library.messages import DecodeRate
from actors.models.card import read_card
from actors.settings import LibrarySettings
from routes.app import create_app
from tests.actors.models.loopback_hub import GOOD_TOKEN, Hub, serving
from tests.routes.harness import House, build, connect
from tests.routes.scripted_generation import description
from tests.support.handle import Handle
from tests.support.hub_cache import HubCache
from tests.support.waiting import eventually


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubCache:
    for name in [name for name in os.environ if name.startswith("HF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    return HubCache(tmp_path / "hub")


@pytest.fixture
async def library(cache: HubCache, tmp_path: Path) -> AsyncIterator[Library]:
    library = Library(LibrarySettings(state_dir=str(tmp_path / "state")), hub_cache=cache.folder)
    await library.start()
    yield library
    await library.close()


@pytest.fixture
def house(library: Library, tiny: Callable[[str], Path]) -> House:
    house = build()
    return with_context(house, library=LibraryClient(Handle(library)), card=read_card(tiny("llama"), "org/tiny"))


def with_context(house: House, **changes: Any) -> House:
    house.context = dataclasses.replace(house.context, **changes)
    house.app = create_app(house.context)
    return house


@pytest.fixture
async def client(house: House) -> AsyncIterator[httpx.AsyncClient]:
    async with connect(house) as client:
        yield client


@pytest.fixture
def hub(tmp_path: Path, tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Hub, Event]]:
    folder, hold = tmp_path / "site" / "acme" / "tiny", Event()
    folder.mkdir(parents=True)
    for path in tiny("llama").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    with serving(tmp_path / "site", hold=hold) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        monkeypatch.setattr(constants, "ENDPOINT", served.address)
        yield served, hold


class AwayLibrary:
    """A library whose process has died."""

    def __getattr__(self, name: str) -> Any:
        async def dead(*arguments: object) -> None:
            raise ConnectionError("the actor died")

        return dead


async def test_every_servable_model_on_disk_follows_the_served_one(
    client: httpx.AsyncClient, cache: HubCache, tiny: Callable[[str], Path]
) -> None:
    cache.checkpoint("acme/mixture", tiny("moe"))
    cache.checkpoint("org/tiny", tiny("llama"))
    cache.snapshot("acme/broken", "1", {"config.json": b"{}", "model.safetensors": b"x"}, "main")
    listed = (await client.get("/v1/models")).json()["data"]
    assert [model["id"] for model in listed] == ["org/tiny", "acme/mixture"]
    assert "capabilities" in listed[0]
    row = {"id": "acme/mixture", "object": "model", "created": 1_700_000_000, "vision": False, "tier": "targeted"}
    assert listed[1] == row
    for path in ("/v1/models/acme/mixture", "/v1/models/acme%2Fmixture"):
        assert (await client.get(path)).json() == {"object": "list", "data": [row]}
    assert (await client.get("/v1/models/acme/broken")).json()["data"] == []


async def test_the_library_marks_what_is_served(
    house: House, client: httpx.AsyncClient, cache: HubCache, tiny: Callable[[str], Path]
) -> None:
    served = cache.checkpoint("acme/served", tiny("llama"))
    cache.checkpoint("acme/other", tiny("hybrid"))
    house = with_context(house, card=read_card(served, "acme/served"))
    async with connect(house) as client:
        models = {row["repo_id"]: row for row in (await client.get("/library")).json()["models"]}
        local = {row["repo_id"]: row for row in (await client.get("/api/hub/local")).json()["models"]}
    assert {name: row["serving"] for name, row in models.items()} == {"acme/served": True, "acme/other": False}
    row = models["acme/other"]
    assert (row["model_type"], row["supported"], row["support_tier"]) == ("qwen3_5", True, "targeted")
    assert (row["vision"], row["audio"], row["quant_bits"]) == (False, False, None)
    assert row["assessment"]["fits"] is True
    assert row["assessment"]["max_safe_context"] > 0
    assert row["assessment"]["predicted_decode_tps"] > 0
    assert local["acme/other"] == {
        **{key: value for key, value in row.items() if key not in ("audio", "serving")},
        "quant_group_size": None,
    }


async def test_refresh_looks_anew(client: httpx.AsyncClient, cache: HubCache, tiny: Callable[[str], Path]) -> None:
    assert (await client.get("/library")).json() == {"models": []}
    cache.checkpoint("acme/tiny", tiny("llama"))
    assert (await client.get("/library")).json() == {"models": []}
    assert len((await client.get("/library?refresh=1")).json()["models"]) == 1


async def test_the_fit_tells_this_machine_and_others(house: House, library: Library, client: httpx.AsyncClient) -> None:
    house.generation.described = description(context_limit=3000, weight_bytes=2_000_000, dtype="float32")
    await library.note_rate(DecodeRate(house.context.card.fingerprint, 33.333))
    fit = (await client.get("/fit")).json()
    assert fit["machine"]["ram_bytes"] > 0
    assert (fit["context_tokens"], fit["typical_context_tokens"], fit["measured_decode_tps"]) == (3000, 3000, 33.33)
    assert fit["measured_at"] > 1_700_000_000_000
    report = fit["report"]
    # 2 layers of 2 x 2 heads x 16 numbers of 4 bytes for each of 3000 tokens; 2048 tokens of scratch.
    assert (report["weights_bytes"], report["kv_bytes"]) == (2_000_000, 2 * 64 * 4 * 3000)
    assert report["transient_bytes"] >= 1_126_400_000
    assert report["total_bytes"] == report["weights_bytes"] + report["kv_bytes"] + report["transient_bytes"]
    assert (report["fits"], report["max_safe_context"]) == (True, 4096)
    assert fit["sku_matrix_ctx"] == 32768
    assert set(fit["sku_matrix"][0]) == {"sku", "ram_gb", "fits", "max_context", "decode_tps"}


async def test_the_statistics_count_the_layers(client: httpx.AsyncClient) -> None:
    stats = (await client.get("/stats")).json()
    assert stats["kv_quant"] == {
        "mode": "bf16",
        "layers": {"bf16": 2},
        "attention": {"global": 2, "sliding_window": 0},
        "recurrent_layers": 0,
    }
    assert stats["admission"]["max_safe_context"] == 4096
    assert stats["troupe"]["library"]["active_downloads"] == 0


async def test_a_download_is_started_shown_and_refused_twice(client: httpx.AsyncClient, hub: tuple[Hub, Event]) -> None:
    started = await client.post("/api/hub/download", json={"repo": "acme/tiny"})
    assert (started.status_code, started.json()) == (200, {"ok": True, "repo": "acme/tiny", "started": True})
    again = await client.post("/api/hub/download", json={"repo": "acme/tiny"})
    assert again.status_code == 409
    assert again.json() == {"ok": False, "error": "a download for acme/tiny is already in progress"}
    (row,) = (await client.get("/downloads")).json()["downloads"]
    assert (row["repo_id"], row["state"], row["finished_at"]) == ("acme/tiny", "active", None)
    assert "error" not in row
    hub[1].set()

    async def ended() -> dict[str, Any] | None:
        (row,) = (await client.get("/downloads")).json()["downloads"]
        return None if row["state"] == "active" else row

    row = await eventually(ended)
    assert (row["state"], row["received_bytes"], row["files_done"]) == ("done", row["total_bytes"], row["files_total"])
    assert row["total_bytes"] > 0
    assert row["finished_at"] >= row["started_at"]
    assert [model["id"] for model in (await client.get("/v1/models")).json()["data"]] == ["org/tiny", "acme/tiny"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "repo required"),
        ({"repo": "  "}, "repo required"),
        ({"repo": 5}, "repo must be a string"),
        ({"repo": "../../etc/passwd"}, "repo must be the id of a repository such as owner/name"),
        ({"repo": "/etc"}, "repo must be the id of a repository such as owner/name"),
        ([], "the body must be a JSON object"),
    ],
)
async def test_a_download_of_nothing_is_refused(client: httpx.AsyncClient, body: object, error: str) -> None:
    response = await client.post("/api/hub/download", json=body)
    assert (response.status_code, response.json()) == (400, {"ok": False, "error": error})
    assert (await client.get("/downloads")).json() == {"downloads": []}


async def test_the_search_answers_with_and_without_a_hub(client: httpx.AsyncClient, hub: tuple[Hub, Event]) -> None:
    found = (await client.get("/api/hub/search", params={"q": "tiny"})).json()
    row = {"id": "acme/tiny", "downloads": 7, "likes": 3, "size_estimate": None}
    assert found == {"ok": True, "offline": False, "results": [row]}
    missing = await client.get("/api/hub/search")
    assert (missing.status_code, missing.json()) == (400, {"ok": False, "error": "q required"})


async def test_a_search_without_a_hub_is_no_error(client: httpx.AsyncClient) -> None:
    response = await client.get("/api/hub/search", params={"q": "tiny"})
    assert response.status_code == 200
    assert (response.json()["ok"], response.json()["offline"], response.json()["results"]) == (True, True, [])
    assert response.json()["error"]


async def test_serving_another_model_needs_a_restart(client: httpx.AsyncClient) -> None:
    response = await client.post("/api/hub/serve", json={"model": "acme/tiny"})
    assert response.status_code == 200
    assert response.json() == {
        "ok": False,
        "restart_required": True,
        "command": "troupe serve --model acme/tiny",
    }
    sly = await client.post("/api/hub/serve", json={"model": "a; rm -rf ~"})
    assert sly.json()["command"] == "troupe serve --model 'a; rm -rf ~'"
    assert (await client.post("/api/hub/serve", json={})).json() == {"ok": False, "error": "model required"}


async def test_clearing_away_needs_a_yes_and_spares_what_is_served(
    house: House, client: httpx.AsyncClient, cache: HubCache, tiny: Callable[[str], Path]
) -> None:
    served = cache.checkpoint("acme/served", tiny("llama"), commit="a" * 40)
    cache.checkpoint("acme/served", tiny("llama"), commit="b" * 40)
    cache.snapshot("acme/old", "1", {"config.json": b"12345"})
    cache.snapshot("acme/old", "2", {"config.json": b"x"}, "main")
    house = with_context(house, card=read_card(served, "acme/served"))
    async with connect(house) as client:
        plan = (await client.get("/api/gc/plan")).json()
        row = {"repo_id": "acme/old", "prune_snapshots": 1, "skipped_snapshots": 0, "dead_blobs": 1, "reclaim_bytes": 5}
        assert plan == {"ok": True, "superseded": [row], "reclaim_bytes": 5}
        for body in ({}, {"yes": False}, {"yes": "true"}):
            refused = await client.post("/api/gc/execute", json=body)
            assert (refused.status_code, refused.json()["ok"]) == (400, False)
        assert (await client.get("/api/gc/plan")).json() == plan
        done = (await client.post("/api/gc/execute", json={"yes": True})).json()
        assert done == {"ok": True, "snapshots": 1, "blobs": 1, "reclaimed_bytes": 5}
        assert (await client.get("/api/gc/plan")).json() == {"ok": True, "superseded": [], "reclaim_bytes": 0}
    assert served.is_dir()


async def test_the_token_goes_in_and_never_comes_out(
    client: httpx.AsyncClient, hub: tuple[Hub, Event], tmp_path: Path
) -> None:
    path = "/api/settings/hf-token"
    assert (await client.get(path)).json() == {"ok": True, "hasToken": False}
    saved = await client.post(path, json={"token": GOOD_TOKEN})
    assert (saved.status_code, saved.json()) == (200, {"ok": True})
    shown = await client.get(path)
    assert shown.json() == {"ok": True, "hasToken": True}
    assert (tmp_path / "state" / "hf.json").stat().st_mode & 0o777 == 0o600
    wrong = await client.post(path, json={"token": "hf_wrong"})
    assert (wrong.status_code, wrong.json()) == (400, {"ok": False, "error": "the hub does not accept this token"})
    assert (await client.get(path)).json()["hasToken"] is True
    assert (await client.delete(path)).json() == {"ok": True}
    assert (await client.get(path)).json()["hasToken"] is False


@pytest.mark.parametrize("body", [{}, {"token": ""}, {"token": " "}, {"token": None}])
async def test_an_empty_token_is_refused(client: httpx.AsyncClient, body: dict[str, object]) -> None:
    response = await client.post("/api/settings/hf-token", json=body)
    assert (response.status_code, response.json()) == (400, {"ok": False, "error": "token required"})


async def test_a_library_that_is_away_hides_nothing_else(house: House) -> None:
    away = with_context(house, library=LibraryClient(Handle(AwayLibrary())))
    async with connect(away) as client:
        assert [model["id"] for model in (await client.get("/v1/models")).json()["data"]] == ["org/tiny"]
        stats = (await client.get("/stats")).json()
        assert (
            stats["kv_quant"]["layers"] is stats["troupe"]["library"] is stats["admission"]["max_safe_context"] is None
        )
        for path in ("/fit", "/library", "/downloads"):
            response = await client.get(path)
            assert response.status_code == 503
            assert response.json()["error"]["type"] == "library_unavailable"
        hidden = await client.get("/api/gc/plan")
        assert (hidden.status_code, hidden.json()) == (503, {"ok": False, "error": "the library does not answer"})
