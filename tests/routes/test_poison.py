"""Requests that must be refused in words, and leave the server as it was."""

from typing import Any

import pytest

from tests.routes.harness import build, chat, connect
from tests.support.poison import HARMLESS, POISON, SERVED, UNSERVED

PATHS = ("/v1/chat/completions", "/v1/completions")


@pytest.mark.parametrize(("body", "message"), POISON, ids=[message[:60] for _, message in POISON])
async def test_a_wrong_field_is_refused_by_name(body: dict[str, object], message: str) -> None:
    house = build()
    house.says("fine")
    async with connect(house) as client:
        response = await client.post("/v1/chat/completions", json=body)
        after = await client.post("/v1/chat/completions", json=chat())
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["message"].startswith(message)
    assert error["type"] == "invalid_request_error"
    assert after.status_code == 200
    assert len(house.generation.submitted) == 1


@pytest.mark.parametrize(("field", "value"), UNSERVED)
@pytest.mark.parametrize("path", PATHS)
async def test_what_cannot_be_served_yet_is_refused_by_name(path: str, field: str, value: object) -> None:
    house = build()
    async with connect(house) as client:
        response = await client.post(path, json={**chat(), "prompt": "x", field: value})
    assert (response.status_code, response.json()["error"]["message"]) == (
        400,
        f"{field} is not supported by this server",
    )
    assert house.generation.submitted == []


@pytest.mark.parametrize("fields", SERVED, ids=lambda fields: ",".join(fields)[:40])
@pytest.mark.parametrize("path", PATHS)
async def test_the_whole_contract_is_served(path: str, fields: dict[str, Any]) -> None:
    house = build()
    house.says("fine")
    async with connect(house) as client:
        response = await client.post(path, json={**chat(), "prompt": "x", **fields})
    assert response.status_code == 200, response.text
    choices = response.json()["choices"]
    texts = [choice["text"] if "text" in choice else choice["message"]["content"] for choice in choices]
    assert texts == ["fine"] * fields.get("n", 1)
    assert "warning" not in response.headers


@pytest.mark.parametrize("fields", HARMLESS, ids=lambda fields: ",".join(fields)[:40])
async def test_a_field_that_asks_for_nothing_passes(fields: dict[str, Any]) -> None:
    house = build()
    house.says("fine")
    async with connect(house) as client:
        response = await client.post("/v1/chat/completions", json=chat(**fields))
    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["message"]["content"] == "fine"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("image_url", "model has no vision sidecar"),
        ("image", "model has no vision sidecar"),
        ("input_audio", "model org/tiny does not accept audio"),
        ("audio", "model org/tiny does not accept audio"),
        ("audio_url", "model org/tiny does not accept audio"),
        ("video_url", "model org/tiny does not accept video"),
        ("video", "model org/tiny does not accept video"),
    ],
)
async def test_media_the_model_cannot_take_is_refused(kind: str, message: str) -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, {"type": kind}]}]}
    async with connect(build()) as client:
        response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(f"{message} (messages[0].content[1]")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"messages": NaN}',
        b'{"a":' * 100_000,
        b'{"messages": "\\ud800x"}',
        b'{"messages": [{"role": "user", "content": "x"}], "logit_bias": {"5": NaN}}',
        b'{"messages": [{"role": "user", "content": "x"}], "logit_bias": {"5": 1e400}}',
        b'{"messages": [{"role": "user", "content": "x"}], "presence_penalty": -1e400}',
        b'{"messages": [{"role": "user", "content": "x"}], "hlg": {"width": Infinity}}',
    ],
)
async def test_a_body_that_is_no_json_is_refused(raw: bytes) -> None:
    async with connect(build()) as client:
        response = await client.post("/v1/chat/completions", content=raw)
    assert (response.status_code, response.json()["error"]["message"]) == (400, "invalid JSON body")
