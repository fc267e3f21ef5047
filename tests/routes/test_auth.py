from __future__ import annotations

import logging
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, WebSocketRoute

from routes.door import Door
from routes.operation import Operation
from tests.routes.harness import House, build, connect


async def clear(request: Request) -> Response:
    return Response()


def guarded(server: dict[str, Any]) -> House:
    """A server with an admin route."""
    house = build({"server": server})
    house.app.router.routes.append(Door("/admin/clear", clear, POST=Operation("Clear", "admin")))
    return house


PATHS = ["/v1", "/v1/models", "/stats", "/metrics", "/nope", "/health/"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "key"},
        {"authorization": "Basic key"},
        {"x-api-key": "ke"},
        {"x-api-key": ""},
        {"authorization": "Bearer k\u00e9y"},
    ],
)
async def test_without_the_key_every_path_but_health_is_closed(path: str, headers: dict[str, str]) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    async with connect(build({"server": {"api_key": "key"}})) as client:
        response = await client.get(path, headers=raw)
    assert response.status_code == 401
    assert response.json()["error"] == {
        "message": "a valid API key is required",
        "type": "invalid_request_error",
        "code": "invalid_api_key",
    }
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "headers", [{"authorization": "Bearer key"}, {"authorization": "bearer  key"}, {"x-api-key": "key"}]
)
async def test_the_key_opens_in_either_header(headers: dict[str, str]) -> None:
    async with connect(build({"server": {"api_key": "key"}})) as client:
        assert (await client.get("/v1/models", headers=headers)).status_code == 200


async def test_health_is_open() -> None:
    async with connect(build({"server": {"api_key": "key"}})) as client:
        assert (await client.get("/health")).status_code == 200


async def test_a_key_may_hold_any_character() -> None:
    async with connect(build({"server": {"api_key": "schlüssel"}})) as client:
        response = await client.get("/v1", headers=[(b"x-api-key", "schlüssel".encode())])
    assert response.status_code == 200


NAMED = {
    "api_keys": [
        {"name": "reader", "key": "one"},
        {"name": "keeper", "key": "two", "scopes": ["admin"]},
        {"name": "both", "key": "three", "scopes": ["inference", "admin"]},
    ]
}


@pytest.mark.parametrize(
    ("key", "models", "clear"),
    [("one", 200, 403), ("two", 403, 200), ("three", 200, 200), ("four", 401, 401), ("", 401, 401)],
)
async def test_a_key_opens_what_its_scopes_say(key: str, models: int, clear: int) -> None:
    async with connect(guarded(NAMED)) as client:
        headers = {"authorization": f"Bearer {key}"}
        assert (await client.get("/v1/models", headers=headers)).status_code == models
        assert (await client.post("/admin/clear", headers=headers)).status_code == clear
        assert (await client.get("/health", headers=headers)).status_code == 200


async def test_the_one_key_opens_everything() -> None:
    async with connect(guarded({"api_key": "key"})) as client:
        assert (await client.get("/v1/models", headers={"x-api-key": "key"})).status_code == 200
        assert (await client.post("/admin/clear", headers={"x-api-key": "key"})).status_code == 200


async def test_a_refused_key_is_called_by_its_name_and_never_shown() -> None:
    async with connect(guarded(NAMED)) as client:
        response = await client.post("/admin/clear", headers={"x-api-key": "one"})
    assert response.json()["error"] == {
        "message": "the API key named 'reader' does not open this route",
        "type": "invalid_request_error",
        "code": "forbidden",
    }


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1", 200), ("localhost", 200), ("::1", 200), ("127.8.8.8", 200), ("0.0.0.0", 403), ("10.0.0.5", 403)],
)
async def test_without_keys_admin_routes_are_open_on_loopback_alone(host: str, status: int) -> None:
    async with connect(guarded({"host": host})) as client:
        assert (await client.post("/admin/clear")).status_code == status
        assert (await client.get("/v1/models")).status_code == 200


async def test_beyond_loopback_a_key_opens_admin_routes() -> None:
    async with connect(guarded({"host": "0.0.0.0", **NAMED})) as client:
        assert (await client.post("/admin/clear", headers={"x-api-key": "two"})).status_code == 200
        assert (await client.post("/admin/clear")).status_code == 401


def test_an_admin_path_cannot_be_given_to_others() -> None:
    with pytest.raises(AssertionError, match="POST /api/things has to ask for admin"):
        Door("/api/things", clear, POST=Operation("Things"))


def test_every_route_says_what_it_asks_of_its_callers() -> None:
    routes = build().app.routes
    assert all(isinstance(route, Door) for route in routes if isinstance(route, Route))
    # Starlette's own routes let everybody in; those that do not have their own way of handling.
    assert all(type(route).handle not in (Route.handle, WebSocketRoute.handle, Mount.handle) for route in routes)


async def test_a_key_is_in_no_log_and_no_figure(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = {"api_keys": [{"name": "a", "key": "pearl-one"}], "api_key": "pearl-two"}
    async with connect(build({"server": server})) as client:
        told = [await client.get("/stats", headers={"x-api-key": "pearl-one"})]
        told.append(await client.get("/metrics", headers={"authorization": "Bearer pearl-two"}))
        told.append(await client.get("/v1", headers={"x-api-key": "pearl-three"}))
        told.append(await client.post("/v1/chat/completions", headers={"x-api-key": "pearl-two"}, content=b"pearl"))
    assert [response.status_code for response in told] == [200, 200, 401, 400]
    named = [record.troupe.get("key") for record in caplog.records if record.name == "troupe.access"]  # type: ignore[attr-defined]
    assert named == ["a", "api_key", None, "api_key"]
    assert all("pearl" not in response.text for response in told)
    assert "pearl" not in caplog.text
