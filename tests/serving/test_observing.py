"""What a person who looks after the server can see of it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from tests.support.server import Server
from tests.support.talk import CHAT, chat_body
from tests.support.waiting import eventually

ACTORS = (
    "ray::ServeReplica:troupe:Ingress",
    "ray::ServeReplica:troupe:GenerationScheduler",
    "ray::ServeReplica:troupe:PromptCacheManager",
    "ray::ServeReplica:troupe:Library",
    "ray::GpuLease",
)


@pytest.mark.parametrize("title", ACTORS)
def test_the_process_list_shows_the_actor_by_its_name(server: Server, title: str) -> None:
    assert server.actor(title).is_running()


def test_every_actor_has_a_process_of_its_own(server: Server) -> None:
    assert len({server.actor(title).pid for title in ACTORS}) == len(ACTORS)


def records(server: Server) -> list[dict[str, Any]]:
    """The structured log lines so far; Ray puts the actor's name before each."""
    found = [line[line.index('{"time"') :] for line in server.lines if '{"time"' in line]
    return [json.loads(line) for line in found]


async def test_the_access_log_carries_the_id_and_figures_of_a_request(server: Server, http: httpx.AsyncClient) -> None:
    response = await http.post(CHAT, json=chat_body("What is a log?", max_tokens=3))
    request_id = response.headers["x-request-id"]
    assert response.json()["id"] == request_id

    async def logged() -> dict[str, Any] | None:
        return next((record for record in records(server) if record.get("request_id") == request_id), None)

    record = await eventually(logged)
    assert (record["method"], record["route"], record["status"]) == ("POST", CHAT, 200)
    assert record["completion_tokens"] == 3
    assert record["prompt_tokens"] == response.json()["usage"]["prompt_tokens"]
    assert 0 < record["first_token_s"] <= record["total_s"]


async def test_a_refused_request_is_logged_with_its_reason(server: Server, http: httpx.AsyncClient) -> None:
    response = await http.post(CHAT, json={"messages": []})

    async def logged() -> dict[str, Any] | None:
        wanted = response.headers["x-request-id"]
        return next((record for record in records(server) if record.get("request_id") == wanted), None)

    record = await eventually(logged)
    assert (record["status"], record["error"]) == (400, "InvalidRequest")


def test_the_sdk_knows_the_request_by_the_same_id(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "Hello!"}], max_tokens=2, temperature=0
    )
    assert reply._request_id == reply.id


def test_the_readiness_line_names_the_url_the_model_and_the_dashboard(server: Server) -> None:
    (line,) = [line for line in server.lines if "Troupe is ready:" in line]
    assert server.url in line
    assert "SmolLM2-135M-Instruct" in line
    assert "dashboard http://127.0.0.1:" in line
