"""POST /v1/messages: what is refused, and what goes wrong on the way, in the shape of the protocol."""

from __future__ import annotations

from actors.errors import GenerationFailed, QueueFull
from actors.generation.messages import Delta
from tests.routes.harness import connect
from tests.routes.messaging import COUNT, PATH, TOOL, house, post, request, streamed
from tests.routes.scripted_generation import description


async def test_errors_have_the_shape_of_the_protocol() -> None:
    server = house(server={"api_key": "secret", "max_body_bytes": 1000})
    key = {"x-api-key": "secret"}
    async with connect(server) as client:
        refused = [
            await client.post(PATH, json=request()),
            await client.post(PATH, json=request(messages=[]), headers=key),
            await client.post(PATH, content=b"{", headers=key),
            await client.post(PATH, json=request(system="x" * 1100), headers=key),
            await client.get(PATH, headers=key),
            await client.get(f"{PATH}/batches", headers=key),
            await client.post(COUNT, json={"messages": []}, headers=key),
        ]
        server.generation.refusal = QueueFull("the line is full")
        refused.append(await client.post(PATH, json=request(), headers=key))
        server.generation.refusal = GenerationFailed("it broke")
        refused.append(await client.post(PATH, json=request(stream=True), headers=key))
        server.generation.refusal = RuntimeError("a secret of the server")
        refused.append(await client.post(PATH, json=request(), headers=key))
        server.context.gate.close()
        refused.append(await client.post(PATH, json=request(), headers=key))
        refused.append(await client.post(COUNT, json=request(), headers=key))
    told = [(response.status_code, response.json()["error"]["type"]) for response in refused]
    assert told == [
        (401, "authentication_error"),
        (400, "invalid_request_error"),
        (400, "invalid_request_error"),
        (413, "request_too_large"),
        (405, "invalid_request_error"),
        (404, "not_found_error"),
        (400, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (500, "api_error"),
        (503, "api_error"),
        (503, "api_error"),
    ]
    for response in refused:
        body = response.json()
        assert (set(body), body["type"]) == ({"type", "error"}, "error")
        assert set(body["error"]) == {"type", "message"}
        assert response.headers["request-id"] == response.headers["x-request-id"]
    assert refused[9].json()["error"]["message"] == "internal server error"


async def test_an_error_in_mid_stream_is_the_last_event() -> None:
    server = house()
    server.generation.script = lambda row: [
        Delta(row.request_id, (65,), cached_tokens=0),
        GenerationFailed("the row failed"),
    ]
    stream = await streamed(server)
    assert [event["type"] for event in stream[2:]] == ["content_block_start", "content_block_delta", "error"]
    assert stream[-1] == {"type": "error", "error": {"type": "api_error", "message": "the row failed"}}


async def test_a_scheduler_that_is_away_is_a_502() -> None:
    server = house()
    server.generation.described = None
    response = await post(server)
    assert (response.status_code, response.json()["error"]["type"]) == (502, "api_error")
    server.generation.described = description()
    assert (await post(server, tools=[TOOL], tool_choice={"type": "tool", "name": "gone"})).status_code == 400
