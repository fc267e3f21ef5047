"""What POST /v1/responses refuses, and the shape of its errors."""

from __future__ import annotations

import pytest

from actors.errors import EngineUnavailable, QueueFull
from tests.routes.harness import House, build, byte_tokenizer, connect
from tests.routes.responding import PATH, post
from tests.routes.templates import OPENED


@pytest.fixture
def house() -> House:
    return build(tokenizer=byte_tokenizer(OPENED))


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"input": None}, "input must be a string or an array of items"),
        ({"background": True}, "background is not supported by this server: leave it out, and read the response"),
        ({"conversation": "conv_1"}, "conversation is not supported by this server"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt is not supported by this server"),
        (
            {"include": ["message.output_text.logprobs"]},
            "log-probabilities are served by /v1/chat/completions, not by /v1/responses",
        ),
        (
            {"top_logprobs": 5},
            "log-probabilities are served by /v1/chat/completions, not by /v1/responses",
        ),
        ({"max_output_tokens": 0}, "max_output_tokens must be at least 1"),
        ({"temperature": "hot"}, "temperature must be of type float"),
        ({"store": "yes"}, "store must be of type bool"),
        ({"truncation": "middle"}, "truncation must be one of 'auto', 'disabled'"),
        ({"instructions": ["x"]}, "instructions must be a string"),
        ({"text": "json"}, "text must be an object"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type must be one of 'text', 'json_object', 'json_schema'"),
        ({"text": {"format": {"type": "json_schema", "name": "s"}}}, "text.format.schema must be an object"),
        ({"reasoning": "high"}, "reasoning must be an object"),
        ({"tools": {}}, "tools must be an array"),
        ({"metadata": []}, "metadata must be an object"),
        ({"adapter": "x"}, "adapter is not supported by this server"),
    ],
)
async def test_what_is_wrong_is_refused_by_name_in_the_shape_of_the_protocol(
    house: House, fields: dict[str, object], fault: str
) -> None:
    async with connect(house) as client:
        response = await client.post(PATH, json={"input": "hi", **fields})
    assert response.status_code == 400
    assert response.json() == {
        "error": {"message": fault, "type": "invalid_request_error", "param": None, "code": None}
    }
    assert house.generation.submitted == []


async def test_the_reasoning_effort_must_be_a_known_one(house: House) -> None:
    response = await post(house, reasoning={"effort": "heroic"})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("reasoning.effort must be one of 'none', 'minimal'")


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("PUT", PATH, 405, "invalid_request_error"),
        ("GET", f"{PATH}/resp_x", 404, "invalid_request_error"),
        ("DELETE", f"{PATH}/resp_x", 404, "invalid_request_error"),
        ("POST", f"{PATH}/resp_x/cancel", 404, "invalid_request_error"),
    ],
)
async def test_errors_of_the_paths_have_the_shape_too(
    house: House, method: str, path: str, status: int, kind: str
) -> None:
    async with connect(house) as client:
        response = await client.request(method, path)
    assert response.status_code == status
    error = response.json()["error"]
    assert (set(error), error["type"]) == ({"message", "type", "param", "code"}, kind)


async def test_a_missing_key_is_told_in_the_shape_too() -> None:
    house = build({"server": {"api_key": "sesame"}})
    response = await post(house)
    assert response.status_code == 401
    assert response.json()["error"]["param"] is None


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (QueueFull("64 wait"), 429, "invalid_request_error"),
        (EngineUnavailable("it restarts"), 502, "server_error"),
        (RuntimeError("a secret"), 500, "server_error"),
    ],
)
async def test_who_fails_before_the_stream_begins_answers_with_a_status(
    house: House, error: Exception, status: int, kind: str
) -> None:
    house.generation.refusal = error
    response = await post(house, stream=True)
    assert (response.status_code, response.json()["error"]["type"]) == (status, kind)
    assert "secret" not in response.text
