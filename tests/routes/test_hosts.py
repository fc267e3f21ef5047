"""Names and pages that a server answers to."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Message

from routes.hosts import HostMiddleware, HostRules
from tests.routes.harness import build, chat, connect

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:8080",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:9",
        "127.1.2.3",
        "[::1]:8080",
        "[0:0:0:0:0:0:0:1]",
        "a.localhost",
    ],
)
async def test_loopback_is_always_a_name_of_the_server(host: str) -> None:
    async with connect(build()) as client:
        assert (await client.get("/v1", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evillocalhost",
        "10.0.0.5",
        "0.0.0.0",
        "[::2]",
        "2130706433",
        "localhost@evil.example",
        "evil.example@localhost",
        "localhost:",
        "localhost:80:80",
        "localhost/x",
        "[::1",
        "::1",
        "localhost localhost",
        "",
    ],
)
async def test_a_foreign_name_is_refused_on_every_path(host: str) -> None:
    async with connect(build()) as client:
        for path in ("/v1", "/health", "/nope"):
            response = await client.get(path, headers=[(b"host", host.encode())])
            assert response.status_code == 403, path
            assert response.json()["error"]["code"] == "forbidden"


async def test_a_foreign_name_is_refused_before_the_key_is_looked_at() -> None:
    async with connect(build({"server": {"api_key": "key"}})) as client:
        assert (await client.get("/v1", headers={"host": "evil.example"})).status_code == 403


@pytest.mark.parametrize(
    ("bound", "host", "status"),
    [
        ("192.168.1.5", "192.168.1.5:8080", 200),
        ("192.168.1.5", "192.168.1.6:8080", 403),
        ("192.168.1.5", "127.0.0.1", 200),
        ("troupe.lan", "Troupe.LAN:80", 200),
        ("troupe.lan", "evil.lan", 403),
        ("0.0.0.0", "192.168.1.5", 200),
        ("::", "[fe80::1]:8080", 200),
        ("0.0.0.0", "evil.example", 403),
    ],
)
async def test_the_address_it_listens_on_is_a_name_too(bound: str, host: str, status: int) -> None:
    async with connect(build({"server": {"host": bound}})) as client:
        assert (await client.get("/v1", headers={"host": host})).status_code == status


@pytest.mark.parametrize(
    ("listed", "host", "status"),
    [
        ("troupe.lan", "troupe.lan:8080", 200),
        ("Troupe.lan", "troupe.lan", 200),
        ("troupe.lan", "a.troupe.lan", 403),
        ("*.example.com", "a.b.example.com", 200),
        ("*.example.com", "example.com", 403),
        ("*.example.com", "evilexample.com", 403),
        ("10.0.0.5", "10.0.0.5", 200),
        ("[fe80::1]", "[fe80:0::1]:8080", 200),
        ("*", "evil.example", 200),
    ],
)
async def test_more_names_can_be_listed(listed: str, host: str, status: int) -> None:
    async with connect(build({"server": {"allowed_hosts": [listed]}})) as client:
        assert (await client.get("/v1", headers={"host": host})).status_code == status


@pytest.mark.parametrize(
    ("origins", "origin", "status"),
    [
        ([], None, 200),
        ([], "http://localhost", 200),
        ([], "http://evil.example", 403),
        ([], "http://localhost:81", 403),
        ([], "null", 403),
        ([], "", 403),
        ([], "http://[", 403),
        (["http://page.example"], "http://page.example", 200),
        (["http://page.example"], "https://page.example", 403),
        (["*"], "http://evil.example", 200),
    ],
)
async def test_a_page_that_is_not_listed_cannot_even_send(origins: list[str], origin: str | None, status: int) -> None:
    house = build({"server": {"cors_origins": origins}})
    headers = {"content-type": "text/plain", **({} if origin is None else {"origin": origin})}
    async with connect(house) as client:
        response = await client.post("/v1/messages/count_tokens", json=chat(), headers=headers)
    assert response.status_code == status


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"]])
async def test_a_request_has_one_host(hosts: list[str]) -> None:
    fault = HostRules(build().context.settings.server).fault(_scope(hosts))
    assert fault is not None and fault.status == 400


def test_a_request_of_http_1_0_may_have_no_host() -> None:
    assert HostRules(build().context.settings.server).fault({**_scope([]), "http_version": "1.0"}) is None


@pytest.mark.parametrize(
    ("host", "origin", "opens"),
    [("localhost", "http://localhost", True), ("localhost", "http://evil.example", False), ("evil.example", "", False)],
)
async def test_a_foreign_page_opens_no_web_socket(host: str, origin: str, opens: bool) -> None:
    sent: list[Message] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    scope = _scope([host])
    scope.update(type="websocket", headers=[*scope["headers"], (b"origin", origin.encode())])
    await HostMiddleware(app, HostRules(build().context.settings.server))(scope, receive, send)
    assert sent[0]["type"] == ("websocket.accept" if opens else "websocket.close")
    assert sent[0].get("code") == (None if opens else 1008)


def _scope(hosts: list[str]) -> dict[str, Any]:
    headers = [(b"host", host.encode()) for host in hosts]
    return {"type": "http", "method": "GET", "http_version": "1.1", "path": "/v1", "headers": headers}
