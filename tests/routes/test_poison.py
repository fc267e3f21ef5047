"""Requests that must be refused in words, and leave the server as it was."""

from typing import Any

import pytest

from tests.routes.harness import build, chat, connect

HUGE = 10**300
NESTED: dict[str, object] = {}
for _ in range(300):
    NESTED = {"deep": NESTED}

POISON: list[tuple[dict[str, object], str]] = [
    ({}, "messages required"),
    ({"messages": None}, "messages required"),
    ({"messages": []}, "messages required"),
    ({"messages": "hi"}, "messages must be an array"),
    ({"messages": {"role": "user"}}, "messages must be an array"),
    ({"messages": [5]}, "messages[0] must be an object"),
    ({"messages": [{}]}, "messages[0].role must be one of 'system', 'user', 'assistant', 'tool'"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role must be one of"),
    ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role must be one of"),
    ({"messages": [{"role": "user"}]}, "messages[0].content must be a string or an array of parts"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content must be"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content must be"),
    ({"messages": [{"role": "user", "content": {"type": "text"}}]}, "messages[0].content must be"),
    ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0] must be an object with a type"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text must be a string"),
    ({"messages": [{"role": "user", "content": [{"type": "odd"}]}]}, "messages[0].content[0].type is not known"),
    (chat(temperature="hot"), "temperature must be of type float"),
    (chat(temperature=True), "temperature must be of type float"),
    (chat(temperature=-0.1), "temperature must be at least 0"),
    (chat(temperature=5.1), "temperature must be at most 5"),
    (chat(temperature=HUGE), "temperature must be at most 5"),
    (chat(temperature=[1]), "temperature must be of type float"),
    (chat(top_p=1.01), "top_p must be at most 1"),
    (chat(top_p=-1), "top_p must be at least 0"),
    (chat(top_k=-1), "top_k must be at least 0"),
    (chat(top_k=1.5), "top_k must be of type int"),
    (chat(top_k=HUGE), "top_k must be at most 2147483647"),
    (chat(min_p=2), "min_p must be at most 1"),
    (chat(seed="x"), "seed must be of type int"),
    (chat(seed=2**64), "seed must be at most 18446744073709551615"),
    (chat(seed=-(2**63) - 1), "seed must be at least -9223372036854775808"),
    (chat(seed=False), "seed must be of type int"),
    (chat(max_tokens=0), "max_tokens must be at least 1"),
    (chat(max_tokens=-5), "max_tokens must be at least 1"),
    (chat(max_tokens=True), "max_tokens must be of type int"),
    (chat(max_tokens="5"), "max_tokens must be of type int"),
    (chat(max_tokens=HUGE), "max_tokens must be at most 9007199254740992"),
    (chat(max_completion_tokens=0, max_tokens=5), "max_completion_tokens must be at least 1"),
    (chat(stream="yes"), "stream must be of type bool"),
    (chat(stream=1), "stream must be of type bool"),
    (chat(stop=5), "stop must be a string or an array of strings"),
    (chat(stop=[5]), "stop must be a string or an array of strings"),
    (chat(stop={"a": 1}), "stop must be a string or an array of strings"),
    (chat(stop=""), "stop must not be an empty string"),
    (chat(stop=["a", ""]), "stop must not be an empty string"),
    (chat(stop=list("abcde")), "stop must have at most 4 strings"),
    (chat(stop="x" * 1025), "stop must be at most 1024 characters a string"),
    (chat(session_id=5), "session_id must be a string"),
    (chat(prompt_cache_key=["x"]), "prompt_cache_key must be a string"),
    (chat(session_id="x" * 513), "session_id must be at most 512 characters"),
    (chat(chat_template_kwargs=[1]), "chat_template_kwargs must be an object"),
    (
        chat(chat_template_kwargs={"chat_template": "x"}),
        "chat_template_kwargs.chat_template cannot be set by a request",
    ),
    (chat(chat_template_kwargs={"tokenize": True}), "chat_template_kwargs.tokenize cannot be set by a request"),
    (
        chat(reasoning_effort="extreme"),
        "reasoning_effort must be one of 'none', 'minimal', 'low', 'medium', 'high', 'xhigh'",
    ),
    (chat(reasoning_effort=3), "reasoning_effort must be one of 'none'"),
    (chat(logit_bias=[1]), "logit_bias must be a dict of int to float"),
    (chat(logit_bias={"x": 1}), "logit_bias must be a dict of int to float"),
    (chat(logit_bias={"5": "x"}), "logit_bias must be a dict of int to float"),
    (chat(logit_bias={"5": True}), "logit_bias must be a dict of int to float"),
    (chat(logprobs=1), "logprobs must be of type bool"),
    (chat(top_logprobs=1.0), "top_logprobs must be of type int"),
    (chat(top_logprobs=-2), "top_logprobs must be at least 0"),
    (chat(top_logprobs=12), "top_logprobs must be at most 11"),
    (chat(n=0), "n must be at least 1"),
    (chat(xtc_threshold=0.6), "xtc_threshold must be at most 0.5"),
    (chat(repetition_penalty=-1), "repetition_penalty must be at least 0"),
    (chat(repetition_context_size=-1), "repetition_context_size must be at least 0"),
    (chat(hlg=5), "hlg must be an object"),
    (chat(hlg={"width": 101}), "hlg.width must be at most 100"),
    (chat(response_format="json"), "response_format must be an object"),
    (chat(response_format={"type": "xml"}), "response_format.type must be one of 'text', 'json_object', 'json_schema'"),
    (chat(guided_choice=[1]), "guided_choice must be an array of strings"),
    (chat(adapter=5), "adapter must be a string"),
    (chat(tools={}), "tools must be an array"),
    (chat(tools=[5]), "tools[0] must be an object of type 'function'"),
    (chat(tools=[{"type": "function"}]), "tools[0].function must have a name"),
    (chat(tool_choice="sometimes"), "tool_choice must be"),
    (chat(tool_choice={"type": "function"}), "tool_choice must name a function"),
]

TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
UNSERVED: list[tuple[str, object]] = [
    ("tools", [TOOL]),
    ("response_format", {"type": "json_object"}),
    ("response_format", {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}),
    ("guided_grammar", 'root ::= "x"'),
    ("guided_regex", "[a-z]*"),
    ("guided_choice", ["yes", "no"]),
    ("structured_outputs", {}),
    ("logprobs", True),
    ("top_logprobs", 3),
    ("adapter", "style"),
    ("hlg", {"enabled": True}),
    ("logit_bias", {"42": -5}),
    ("repetition_penalty", 1.1),
    ("presence_penalty", 0.5),
    ("frequency_penalty", -0.5),
    ("xtc_probability", 0.5),
    ("n", 2),
]

EVERY_FIELD = (
    *("stream", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "seed", "min_p", "stop", "n"),
    *("xtc_probability", "xtc_threshold", "logit_bias", "repetition_penalty", "repetition_context_size"),
    *("presence_penalty", "presence_context_size", "frequency_penalty", "frequency_context_size", "logprobs"),
    *("top_logprobs", "tools", "tool_choice", "chat_template_kwargs", "reasoning_effort", "hlg", "response_format"),
    *("guided_grammar", "guided_regex", "guided_choice", "structured_outputs", "adapter", "session_id"),
    *("prompt_cache_key", "stream_options"),
)
HARMLESS: list[dict[str, Any]] = [
    {"tools": []},
    {"tools": [TOOL], "tool_choice": "none"},
    {"tool_choice": "auto"},
    {"tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"response_format": {"type": "text"}},
    {"logprobs": False, "top_logprobs": -1},
    {"top_logprobs": 0},
    {"adapter": "none"},
    {"hlg": {"enabled": False, "width": 4}},
    {"hlg": {"width": 4}},
    {"logit_bias": {}},
    {"repetition_penalty": 1.0, "presence_penalty": 0, "frequency_penalty": 0.0},
    {"repetition_context_size": 20, "presence_context_size": 20, "frequency_context_size": 0},
    {"xtc_probability": 0, "xtc_threshold": 0.1},
    {"n": 1},
    {"n": 1.0, "max_tokens": 5.0},
    {"stream_options": "whatever"},
    {"never_heard_of": NESTED},
    {"model": "another", "user": 5},
    dict.fromkeys(EVERY_FIELD),
]


@pytest.mark.parametrize(("body", "message"), POISON, ids=[message for _, message in POISON])
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


UNSERVED_BY_PATH = [
    *[("/v1/chat/completions", field, value) for field, value in UNSERVED],
    *[("/v1/completions", field, value) for field, value in UNSERVED if field != "tools"],
]


@pytest.mark.parametrize(("path", "field", "value"), UNSERVED_BY_PATH)
async def test_what_cannot_be_served_yet_is_refused_by_name(path: str, field: str, value: object) -> None:
    house = build()
    async with connect(house) as client:
        response = await client.post(path, json={**chat(), "prompt": "x", field: value})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(field)
    assert house.generation.submitted == []


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
    "raw", [b"", b"{", b"\xff\xfe", b'{"messages": NaN}', b'{"a":' * 100_000, b'{"messages": "\\ud800x"}']
)
async def test_a_body_that_is_no_json_is_refused(raw: bytes) -> None:
    async with connect(build()) as client:
        response = await client.post("/v1/chat/completions", content=raw)
    assert (response.status_code, response.json()["error"]["message"]) == (400, "invalid JSON body")
