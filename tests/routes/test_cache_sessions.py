from __future__ import annotations

import pytest

from tests.routes.harness import build, connect

PATH = "/admin/cache/session/close"


async def test_a_session_is_closed_by_its_name() -> None:
    house = build()
    async with connect(house) as client:
        answer = await client.post(PATH, json={"session_id": "agent-42"})
    assert (answer.status_code, answer.json()) == (200, {"closed": True})
    assert house.generation.closed_sessions == ["agent-42"]


@pytest.mark.parametrize("body", [{}, {"session_id": None}, {"session_id": ""}])
async def test_without_a_name_nothing_is_closed(body: dict[str, object]) -> None:
    house = build()
    async with connect(house) as client:
        answer = await client.post(PATH, json=body)
    assert (answer.status_code, answer.json()) == (200, {"closed": False})
    assert house.generation.closed_sessions == []


@pytest.mark.parametrize("raw", [b'{"session_id": 5}', b"[]", b"", b"{"])
async def test_what_is_no_name_is_refused(raw: bytes) -> None:
    async with connect(build()) as client:
        answer = await client.post(PATH, content=raw)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


async def test_a_manager_that_is_away_is_named() -> None:
    house = build()
    house.generation.down = True
    async with connect(house) as client:
        answer = await client.post(PATH, json={"session_id": "agent-42"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "cache_unavailable")


async def test_closing_asks_for_the_key() -> None:
    async with connect(build({"server": {"api_key": "secret"}})) as client:
        assert (await client.post(PATH, json={"session_id": "a"})).status_code == 401
