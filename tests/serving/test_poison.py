"""Requests that should break a server, sent to a real one while somebody else reads a stream."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.support.poison import HARMLESS, POISON, SERVED, UNSERVED
from tests.support.server import Server
from tests.support.talk import CHAT, chat_body, say, streaming, until_rows

TEXT = "/v1/completions"
NEIGHBOUR = "Count from one to two hundred in words."
SHORT = {"max_tokens": 2, "temperature": 0}
MEGABYTE = "word " * 200_000

# Path, raw body, and the statuses that are right.
RAW: list[tuple[str, bytes, int]] = [
    (CHAT, b"", 400),
    (CHAT, b"null", 400),
    (CHAT, b"[]", 400),
    (CHAT, b'"text"', 400),
    (CHAT, b"{", 400),
    (CHAT, b"\x00" * 1000, 400),
    (CHAT, b"\xff\xfe\x00", 400),
    (CHAT, b'{"messages": [{"role": "user", "content": "\xc3\x28"}]}', 400),
    (CHAT, b'{"messages": [{"role": "user", "content": "\\ud83d"}]}', 400),
    (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}', 400),
    (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "temperature": Infinity}', 400),
    (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "temperature": 1e999}', 400),
    (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "logit_bias": {"5": NaN}}', 400),
    (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "logit_bias": {"5": 1e400}}', 400),
    (TEXT, b'{"prompt": "x", "presence_penalty": -1e400}', 400),
    (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "seed": 1' + b"0" * 5000 + b"}", 400),
    (CHAT, b'{"a":' * 100_000, 400),
    (CHAT, b"[" * 1_000_000, 400),
    (TEXT, b'{"prompt": "x"', 400),
]


def chat(content: Any, **options: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}], **SHORT, **options}


def text(prompt: Any, **options: Any) -> dict[str, Any]:
    return {"prompt": prompt, **SHORT, **options}


# Path, body, and the status that is right.
ODD: list[tuple[str, dict[str, Any], int]] = [
    (TEXT, text(""), 400),
    (TEXT, text(["a", "b"]), 400),
    (TEXT, text([1, 2, 3]), 400),
    (TEXT, text([10**9]), 400),
    (TEXT, text(None), 400),
    (TEXT, text("x", stop=5), 400),
    (TEXT, text("x", logit_bias={"99999999": 5}), 400),
    (TEXT, text("x", xtc_probability=1, xtc_threshold=0.9), 400),
    (TEXT, text("x", n=9), 400),
    (TEXT, text("x", logprobs=3), 400),
    (TEXT, text("x", adapter="style"), 400),
    (TEXT, text("x", guided_regex=""), 400),
    (TEXT, text("x", response_format={"type": "json_schema"}), 400),
    (TEXT, text("x", guided_regex="(((("), 200),
    (TEXT, text("x", guided_grammar="root ::= nowhere"), 200),
    (CHAT, chat("x", guided_grammar="\x00\x01"), 200),
    (CHAT, chat("x", structured_outputs={"type": "nonsense"}), 200),
    (CHAT, chat("x", structured_outputs={"$ref": "#/nowhere"}), 200),
    (TEXT, text("x", logit_bias={"5": 1e6, "6": -1e6}, temperature=5.0), 200),
    (TEXT, text("x", repetition_penalty=1000, presence_penalty=1000, frequency_penalty=-1000), 200),
    (TEXT, text("x", top_k=10**6, temperature=1.0), 200),
    (TEXT, text("x", top_k=49152, temperature=1.0), 200),
    (TEXT, text("x", temperature=5.0, min_p=1.0, top_p=1e-300), 200),
    (TEXT, text("x", temperature=1e-300), 200),
    (TEXT, text("x", seed=-1), 200),
    (TEXT, text("x", max_tokens=None, stop="\n", **{"temperature": None}) | {"max_tokens": 2}, 200),
    (TEXT, text(MEGABYTE), 400),
    (TEXT, text("x" * 2**20), 400),
    (TEXT, text("\x00"), 200),
    (TEXT, text("<|im_end|><|im_start|><|endoftext|>"), 200),
    (CHAT, chat(""), 200),
    (CHAT, chat(MEGABYTE), 400),
    (CHAT, chat("👩‍👩‍👧‍👦" * 50), 200),
    (CHAT, chat([]), 200),
    (CHAT, chat([{"type": "text", "text": "hi"}]), 200),
    (CHAT, chat([{"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}]), 400),
    (CHAT, chat([{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]), 400),
    (CHAT, chat("x", temperature=None, max_tokens=None) | {"max_completion_tokens": 2}, 200),
    (CHAT, chat("x", model="../../../etc/passwd"), 200),
    (CHAT, chat("x", chat_template_kwargs={"messages": []}), 400),
    (CHAT, {"messages": [{"role": "assistant", "content": "I spoke first"}], **SHORT}, 200),
    (CHAT, {"messages": [{"role": "user", "content": "x"}] * 3000, **SHORT}, 400),
]


@pytest.fixture(scope="module")
def every_request() -> list[tuple[str, bytes, int]]:
    refused = [(CHAT, dict(body), 400) for body, _ in POISON]
    unserved = [(CHAT, chat("x", **{field: value}), 400) for field, value in UNSERVED]
    harmless = [(CHAT, chat("x") | fields | SHORT, 200) for fields in HARMLESS]
    served = [(CHAT, chat("x") | fields, 200) for fields in SERVED]
    served += [(TEXT, text("x") | fields, 200) for fields in SERVED]
    documents = [*refused, *unserved, *harmless, *served, *ODD]
    return RAW + [(path, json.dumps(body).encode(), status) for path, body, status in documents]


async def test_a_hundred_poison_requests_and_a_neighbour_that_does_not_notice(
    http: httpx.AsyncClient, every_request: list[tuple[str, bytes, int]]
) -> None:
    alone = await say(http, NEIGHBOUR, max_tokens=60)
    sent = asyncio.Event()

    async def neighbour() -> list[str]:
        texts: list[str] = []
        while not sent.is_set():
            async with streaming(http, NEIGHBOUR, max_tokens=60) as stream:
                texts.append(await stream.read())
        return texts

    reading = asyncio.create_task(neighbour())
    await until_rows(http, active_rows=1)
    wrong = [fault for request in every_request if (fault := await _fault(http, *request))]
    sent.set()
    texts = await reading
    assert wrong == []
    assert len(every_request) > 100
    assert texts == [alone] * len(texts)
    assert await say(http, "What is the capital of France?") == "The capital of France is Paris."


async def _fault(http: httpx.AsyncClient, path: str, body: bytes, status: int) -> str | None:
    """What is wrong with the answer to a request; None when nothing is."""
    response = await http.post(path, content=body, headers={"content-type": "application/json"})
    shown = f"{path} {body[:200]!r}: {response.status_code} {response.text[:200]}"
    if response.status_code != status:
        return f"{shown}, not {status}"
    answer = response.json()
    if status == 200:
        return None if answer["usage"]["completion_tokens"] >= 1 else shown
    return None if isinstance(answer["error"]["message"], str) and answer["error"]["message"] else shown


async def test_poison_in_a_stream_is_refused_before_the_stream_begins(http: httpx.AsyncClient) -> None:
    for body in (chat("x", temperature=9), chat(MEGABYTE)):
        response = await http.post(CHAT, json=body | {"stream": True})
        assert response.status_code == 400
        assert response.headers["content-type"] == "application/json"


async def test_half_a_request_does_not_hold_up_others(server: Server, http: httpx.AsyncClient) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    await writer.drain()
    assert (await http.post(CHAT, json=chat_body("Hello!", max_tokens=1))).status_code == 200
    writer.close()
    await writer.wait_closed()
    assert await reader.read() == b""


async def test_bytes_that_are_no_http_are_refused(server: Server, http: httpx.AsyncClient) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"\x16\x03\x01\x02\x00 this is no HTTP\r\n\r\n")
    await writer.drain()
    assert (await reader.read()).startswith(b"HTTP/1.1 400")
    writer.close()
    await writer.wait_closed()
    assert (await http.get("/health")).status_code == 200


async def test_a_body_that_is_announced_as_far_too_long_is_refused_unread(server: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n")
    await writer.drain()
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"the body is longer than" in answer
    writer.close()
    await writer.wait_closed()
