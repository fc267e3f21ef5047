"""Constraints that cannot be enforced: the model is asked in words, and the client is warned."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.generation.grammar.constraint import Constraint
from tests.routes.call import Call
from tests.routes.harness import build, byte_tokenizer, chat, unpack
from tests.routes.reading import CHAT, TEXT, hermes, post, tool
from tests.routes.templates import TOOLS

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SOURCE = json.dumps(SCHEMA)
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
CLOCK = tool("clock")
TURN = "<|start|>user:hi<|end|><|start|>assistant:"
INSTRUCTIONS = [
    ({"response_format": {"type": "json_object"}}, "Answer with valid JSON only, without any text before or after it."),
    (
        {"response_format": JSON_SCHEMA},
        "Answer with JSON only, without any text before or after it. It must conform to this JSON schema:\n" + SOURCE,
    ),
    ({"guided_grammar": 'root ::= "x"'}, 'Answer only with text that matches this grammar:\nroot ::= "x"'),
    ({"guided_regex": "(a"}, "Answer only with text that matches this regular expression:\n(a"),
    ({"guided_choice": ["a", "b"]}, 'Answer with exactly one of these texts and nothing else:\n["a", "b"]'),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "words"), INSTRUCTIONS, ids=[next(iter(fields)) for fields, _ in INSTRUCTIONS])
async def test_what_cannot_be_enforced_is_asked_for_in_front_and_warned_of(
    fields: dict[str, Any], words: str, stream: bool
) -> None:
    server = build()
    server.generation.unenforceable = "it does\nnot compile"
    server.says("x")
    response = await post(server, stream=stream, **fields)
    assert response.status_code == 200
    assert response.headers["warning"] == "grammar not enforced: it does not compile"
    assert server.prompt == f"<|start|>system:{words}<|end|>{TURN}"
    assert server.row.constraint is None
    assert len(server.generation.compiled) == 1


async def test_the_instruction_joins_a_system_message_that_comes_first() -> None:
    server = build()
    server.generation.unenforceable = "no"
    server.says("x")
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "later"},
    ]
    await post(server, messages=messages, guided_regex="a")
    words = "Answer only with text that matches this regular expression:\na"
    assert server.prompt.startswith(f"<|start|>system:{words}\n\nBe brief.<|end|><|start|>user:hi<|end|>")
    assert server.prompt.count("regular expression") == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_raw_continuation_is_only_warned_of(stream: bool) -> None:
    server = build()
    server.generation.unenforceable = "no"
    server.says("x")
    response = await post(server, TEXT, prompt="Once", guided_regex="(", stream=stream)
    assert response.headers["warning"] == "grammar not enforced: no"
    assert (server.prompt, server.row.constraint) == ("Once", None)
    assert server.context.preparation.statistics().prepared == 1


@pytest.mark.parametrize(
    ("settings", "environment", "why"),
    [
        ({}, {"MLX_BUN_GRAMMAR": "0"}, "MLX_BUN_GRAMMAR=0"),
        ({"grammar": {"enabled": False}}, {}, "generation.grammar.enabled"),
        ({"grammar": {"enabled": False}}, {"MLX_BUN_GRAMMAR": "0"}, "MLX_BUN_GRAMMAR=0"),
    ],
)
@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_a_switch_takes_the_same_way(
    path: str, settings: dict[str, Any], environment: dict[str, str], why: str
) -> None:
    server = build({"generation": settings}, environment=environment)
    server.says("x")
    response = await post(server, path, guided_choice=["a"])
    assert response.headers["warning"] == f"grammar not enforced: grammar compilation disabled by {why}"
    assert server.generation.compiled == []
    assert server.row.constraint is None
    assert ("exactly one of these" in server.prompt) is (path == CHAT)


@pytest.mark.parametrize("value", ["1", ""])
async def test_any_other_value_of_the_switch_is_on(value: str) -> None:
    server = build(environment={"MLX_BUN_GRAMMAR": value})
    server.says("x")
    await post(server, guided_choice=["a"])
    assert server.row.constraint == Constraint("choice", '["a"]')


async def test_a_reason_is_one_short_line_whatever_it_quotes() -> None:
    server = build()
    server.generation.unenforceable = "bad é\x00\r\nSet-Cookie: x\x7f" + "y" * 1000
    server.says("x")
    response = await post(server, guided_regex="(")
    assert response.headers["warning"] == "grammar not enforced: " + ("bad ?? Set-Cookie: x?" + "y" * 1000)[:400]
    assert "set-cookie" not in response.headers


async def test_a_page_of_a_listed_origin_may_read_the_warning() -> None:
    server = build({"server": {"cors_origins": ["https://app.example"]}})
    server.says("x")
    request = Call(server.app, CHAT, json.dumps(chat()).encode(), {"origin": "https://app.example"})
    await request.task
    headers = dict(request.sent[0]["headers"])
    assert headers[b"access-control-expose-headers"] == b"x-request-id, warning"


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("required", "Answer with a call of one of the tools."),
        ({"type": "function", "function": {"name": "clock"}}, "Answer with a call of the tool clock."),
    ],
)
@pytest.mark.parametrize("fields", [{}, {"response_format": JSON_SCHEMA}])
async def test_a_required_call_that_is_not_enforced_is_asked_for(
    choice: object, words: str, fields: dict[str, Any]
) -> None:
    server = build(tokenizer=byte_tokenizer(TOOLS))
    server.generation.unenforceable = "no"
    server.says(hermes("clock"))
    response = await post(server, tools=[CLOCK], tool_choice=choice, **fields)
    assert response.headers["warning"] == "grammar not enforced: no"
    assert f"<|start|>system:{words}<|end|>" in server.prompt
    assert "JSON schema:" not in server.prompt
    assert response.json()["choices"][0]["finish_reason"] == "tool_calls"


async def test_the_prompt_with_an_instruction_is_the_one_that_is_counted() -> None:
    server = build()
    server.generation.unenforceable = "no"
    server.says("x")
    answer = (await post(server, guided_regex="a")).json()
    assert answer["usage"]["prompt_tokens"] == len(unpack(server.row.prompt)) == 90


async def test_keywords_that_a_grammar_cannot_hold_are_named_and_the_rest_is_enforced() -> None:
    server = build()
    server.says("x")
    schema = {"type": "array", "uniqueItems": True, "items": {"not": {"const": 1}}}
    response = await post(server, response_format={"type": "json_schema", "json_schema": {"schema": schema}})
    assert response.headers["warning"] == "grammar not enforced: the JSON schema's uniqueItems, not"
    assert server.row.constraint is not None
    assert "JSON" not in server.prompt
