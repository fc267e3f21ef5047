"""Keys, names and sizes over real sockets, spoken by the official clients and by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx
import openai
import pytest

from tests.support.company import Company, run_company

READER, KEEPER = "key-of-reader", "key-of-keeper"
BOTH = {"authorization": f"Bearer {READER}"}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def company(tiny: Callable[[str], Path]) -> Iterator[Company]:
    server = {
        "api_keys": [
            {"name": "reader", "key": READER},
            {"name": "keeper", "key": KEEPER, "scopes": ["admin"]},
        ],
        "allowed_hosts": ["troupe.lan"],
        "max_body_bytes": 10_000,
        "max_header_bytes": 4096,
        "max_headers": 40,
    }
    generation = {"max_tokens": 3, "context_tokens": 256}
    with run_company({"model": str(tiny("llama")), "server": server, "generation": generation}) as company:
        yield company


def sdk(company: Company, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{company.url}/v1", api_key=key, max_retries=0, timeout=PATIENCE_S)


def claude(company: Company, **credentials: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=company.url, max_retries=0, timeout=PATIENCE_S, **credentials)


def test_the_openai_client_with_the_right_key_and_with_others(company: Company) -> None:
    with sdk(company, READER) as client:
        answer = client.chat.completions.create(model="any", messages=[{"role": "user", "content": "hi"}])
        assert answer.usage is not None and answer.usage.completion_tokens == 3
        for key in ("wrong", READER[:-1], READER + "x", READER.upper()):
            with pytest.raises(openai.AuthenticationError) as refused:
                client.with_options(api_key=key).models.list()
            assert refused.value.code == "invalid_api_key"
    with sdk(company, KEEPER) as client, pytest.raises(openai.PermissionDeniedError, match="named 'keeper'"):
        client.models.list()


@pytest.mark.parametrize("by", ["api_key", "auth_token"])
def test_the_anthropic_client_with_the_right_key_and_with_others(company: Company, by: str) -> None:
    question: Any = {"model": "any", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]}
    with claude(company, **{by: READER}) as client:
        assert client.messages.create(**question).usage.output_tokens == 3
    with claude(company, **{by: "wrong"}) as client, pytest.raises(anthropic.AuthenticationError) as refused:
        client.messages.create(**question)
    body: Any = refused.value.body
    assert body["error"]["type"] == "authentication_error"
    with claude(company, **{by: KEEPER}) as client, pytest.raises(anthropic.PermissionDeniedError) as forbidden:
        client.messages.create(**question)
    body = forbidden.value.body
    assert body["error"]["type"] == "permission_error"


def test_admin_routes_want_the_other_key(company: Company) -> None:
    with httpx.Client(base_url=company.url, timeout=PATIENCE_S) as client:
        for path in ("/admin/cache/session/close", "/api/gc/execute"):
            statuses = [
                client.post(path, json={}, headers=headers).status_code
                for headers in ({}, {"x-api-key": READER}, {"x-api-key": KEEPER})
            ]
            assert statuses[:2] == [401, 403]
            assert statuses[2] in (200, 400)
        assert client.get("/health").status_code == 200


HEADERS: list[tuple[list[bytes], int]] = [
    ([b"host: localhost"], 200),
    ([b"host: troupe.lan"], 200),
    ([b"HOST:\t127.0.0.1 "], 200),
    ([b"host: evil.example"], 403),
    ([b"host: troupe.lan.evil.example"], 403),
    ([b"host: \xe9vil"], 403),
    ([b"host:"], 403),
    ([b"host: localhost", b"host: evil.example"], 400),
    ([b"x-forwarded-host: localhost"], 400),
    ([b"host: localhost", b"x-forwarded-host: evil.example"], 200),
    ([b"host: localhost", b"x-api-key: \xff\xfe"], 200),
    ([b"host: localhost", b"bad header: x"], 400),
    ([b"host: localhost", b"x: " + b"a" * 5000], 431),
    ([b"host: localhost", *[b"x: a"] * 50], 431),
]


@pytest.mark.parametrize(("headers", "status"), HEADERS, ids=lambda value: repr(value)[:40])
async def test_hosts_and_headers_over_the_wire(company: Company, headers: list[bytes], status: int) -> None:
    keyed = [*headers, b"authorization: Bearer " + READER.encode()]
    answered, body = await speak(company, b"GET /v1/models HTTP/1.1", keyed)
    assert answered == status
    assert "data" in body or body["error"]["message"]


@pytest.mark.parametrize(
    "key",
    [b"", b"Bearer", b"Bearer ", b"bearer \xff", b"Bearer " + READER.encode() + b"\x00", b"Basic a2V5", b"Bearer a b"],
)
async def test_poison_in_the_place_of_a_key_is_no_key(company: Company, key: bytes) -> None:
    answered, body = await speak(company, b"GET /v1/models HTTP/1.1", [b"host: localhost", b"authorization: " + key])
    assert answered in (400, 401)
    assert READER not in json.dumps(body)


async def test_a_body_beyond_the_limits_is_refused(company: Company) -> None:
    deep = b'{"a":' + b"[" * 600 + b"]" * 600 + b"}"
    async with httpx.AsyncClient(base_url=company.url, headers=BOTH, timeout=PATIENCE_S) as client:
        long = await client.post("/v1/chat/completions", content=b" " * 10_001)
        nested = await client.post("/v1/chat/completions", content=deep)
    assert (long.status_code, nested.status_code) == (413, 400)
    assert "10000 bytes" in long.json()["error"]["message"]
    assert "nested deeper" in nested.json()["error"]["message"]


async def test_a_page_elsewhere_can_neither_read_nor_send(company: Company) -> None:
    foreign = {**BOTH, "origin": "https://evil.example"}
    async with httpx.AsyncClient(base_url=company.url, headers=foreign, timeout=PATIENCE_S) as client:
        read = await client.get("/v1/models")
        sent = await client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "hi"}]})
        asked = await client.options("/v1/models", headers={"access-control-request-method": "GET"})
    assert "access-control-allow-origin" not in read.headers
    assert sent.status_code == 403
    assert asked.status_code == 405


async def speak(company: Company, line: bytes, headers: list[bytes]) -> tuple[int, Any]:
    """One request by hand, and its answer's status and JSON."""
    address = urlsplit(company.url)
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(b"\r\n".join([line, *headers, b"connection: close", b"", b""]))
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        body = b"".join(body.split(b"\r\n")[1::2])
    return int(head.split(b" ")[1]), json.loads(body)
