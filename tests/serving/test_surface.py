"""What tools find at the door: names, health, figures, and what is not there."""

from __future__ import annotations

import re

import httpx
import openai
import pytest

from tests.support.server import Server
from tests.support.talk import CHAT, KEY, ORIGIN, chat_body

MODEL = "SmolLM2-135M-Instruct"


def test_the_sdk_lists_the_model(client: openai.OpenAI) -> None:
    model = client.models.list().data[0]  # others may lie in the hub's cache of whoever runs this
    assert model.id == MODEL
    described = model.model_dump()
    assert described["context_window"] == 8192
    assert described["batch_mode"] == "batch"


async def test_a_model_is_found_by_its_name_only(http: httpx.AsyncClient) -> None:
    assert [model["id"] for model in (await http.get(f"/v1/models/{MODEL}")).json()["data"]] == [MODEL]
    assert (await http.get("/v1/models/other/one")).json() == {"object": "list", "data": []}


async def test_the_index_names_the_server_and_its_model(http: httpx.AsyncClient) -> None:
    index = (await http.get("/v1")).json()
    assert (index["name"], index["model"]) == ("troupe", MODEL)
    assert "POST /v1/chat/completions" in index["endpoints"]


async def test_a_server_that_serves_is_healthy(http: httpx.AsyncClient) -> None:
    response = await http.get("/health")
    assert (response.status_code, response.content) == (200, b'{"status": "ok"}')


@pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere"), ("POST", "/v1/nothing"), ("GET", "/v1/")])
async def test_an_unknown_path_answers_404(http: httpx.AsyncClient, method: str, path: str) -> None:
    response = await http.request(method, path)
    assert (response.status_code, response.json()) == (404, {"error": {"message": "not found"}})


async def test_a_wrong_method_answers_405(http: httpx.AsyncClient) -> None:
    response = await http.get(CHAT)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


async def test_the_figures_of_every_actor_are_shown(http: httpx.AsyncClient) -> None:
    await http.post(CHAT, json=chat_body("Hello!", max_tokens=2))
    stats = (await http.get("/stats")).json()
    assert stats["server"]["model"] == MODEL
    assert stats["batch"]["mode"] == "batch"
    assert stats["batch"]["configured"] == 8
    assert stats["admission"]["enforced_context_tokens"] == 8192
    assert stats["prompt_cache"]["entries"] > 0
    actors = stats["troupe"]
    assert actors["scheduler"]["generated_tokens"] >= 2
    assert actors["scheduler"]["lease_hold_s"] > 0
    assert actors["prompt_cache"]["size"] > 0
    assert actors["lease"]["reserved_bytes"] > 500_000_000
    assert actors["ingress"]["admitted"] > 0


async def test_prometheus_reads_the_same_figures(http: httpx.AsyncClient) -> None:
    response = await http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    values = dict(re.findall(r"^([a-z_]+)(?:\{[^}]*\})? ([0-9.e+]+)$", response.text, re.MULTILINE))
    for actor in ("scheduler", "prompt_cache", "lease"):
        assert values[f"troupe_{actor}_up"] == "1.0"
    figures = (await http.get("/stats")).json()["troupe"]["scheduler"]
    assert float(values["troupe_scheduler_generated_tokens_total"]) == figures["generated_tokens"]


async def test_pages_of_other_origins_get_no_permission(http: httpx.AsyncClient) -> None:
    headers = {"origin": "https://app.example", "access-control-request-method": "POST"}
    asked = await http.options(CHAT, headers=headers)
    answered = await http.get("/v1/models", headers=headers)
    assert asked.status_code == 405
    for response in (asked, answered):
        assert not [name for name in response.headers if name.startswith("access-control")]


async def test_a_listed_origin_gets_permission_and_another_does_not(visitor: httpx.AsyncClient) -> None:
    listed = await visitor.get("/v1/models", headers={"origin": ORIGIN})
    other = await visitor.get("/v1/models", headers={"origin": "https://elsewhere.example"})
    assert listed.headers["access-control-allow-origin"] == ORIGIN
    assert "access-control-allow-origin" not in other.headers


def test_the_right_key_opens_and_a_wrong_one_does_not(small: Server) -> None:
    with openai.OpenAI(base_url=f"{small.url}/v1", api_key=KEY, max_retries=0) as client:
        assert client.models.list().data
        wrong = client.with_options(api_key="wrong")
        with pytest.raises(openai.AuthenticationError) as refused:
            wrong.chat.completions.create(model="any", messages=[{"role": "user", "content": "hi"}])
    assert refused.value.code == "invalid_api_key"


async def test_every_path_but_health_asks_for_the_key_in_either_header(small: Server) -> None:
    async with small.http() as stranger:
        assert (await stranger.get("/health")).status_code == 200
        for path in ("/v1/models", "/stats", "/metrics", "/nowhere"):
            assert (await stranger.get(path)).status_code == 401
        assert (await stranger.get("/v1/models", headers={"x-api-key": KEY})).status_code == 200
        assert (await stranger.get("/v1/models", headers={"x-api-key": KEY.upper()})).status_code == 401


def test_the_door_opens_to_this_machine_only(server: Server) -> None:
    doors = [
        connection.laddr.ip
        for process in server.family()
        for connection in process.net_connections("inet")
        if connection.status == "LISTEN" and connection.laddr.port == server.port
    ]
    assert doors == ["127.0.0.1"]
