"""Structured output through both completion routes: what is enforced, and what is only asked for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from actors.errors import EngineUnavailable
from actors.generation.grammar.constraint import Constraint
from routes.enforcement import FRAMES
from tests.routes.call import Call, turns
from tests.routes.harness import House, build, byte_tokenizer, chat
from tests.routes.reading import CHAT, TEXT, Answer, both, hermes, post, tool, whole
from tests.routes.templates import HARMONY, HARMONY_TOKENS, OPENED, TOOLS

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SOURCE = json.dumps(SCHEMA)
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
CLOCK = tool("clock")

EVERY_FIELD: list[tuple[str, object, Constraint]] = [
    ("guided_grammar", 'root ::= "x"', Constraint("ebnf", 'root ::= "x"')),
    ("response_format", JSON_SCHEMA, Constraint("json_schema", SOURCE)),
    ("structured_outputs", {"type": "array"}, Constraint("json_schema", '{"type": "array"}')),
    ("guided_regex", r"\d+", Constraint("regex", r"\d+")),
    ("guided_choice", ["ja", "né"], Constraint("choice", '["ja", "né"]')),
]


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("first", range(len(EVERY_FIELD)))
async def test_the_first_field_of_the_list_is_compiled_and_submitted(path: str, first: int) -> None:
    server = build()
    server.says("x", finish="complete")
    fields: dict[str, Any] = {name: value for name, value, _ in EVERY_FIELD[first:]}
    response = await post(server, path, **fields)
    assert response.status_code == 200
    assert "warning" not in response.headers
    assert server.generation.compiled == [EVERY_FIELD[first][2]]
    assert server.row.constraint == EVERY_FIELD[first][2]


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"type": "json_object"}, Constraint("json")),
        ({"type": "text"}, None),
        (None, None),
        (
            {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": False, "any_whitespace": False}},
            Constraint("json_schema", SOURCE, any_whitespace=False, strict=False),
        ),
    ],
)
async def test_a_response_format_is_what_it_says(path: str, wanted: object, expected: Constraint | None) -> None:
    server = build()
    server.says("x")
    await post(server, path, response_format=wanted)
    assert server.generation.compiled == ([] if expected is None else [expected])
    assert server.row.constraint == expected


async def test_a_complete_grammar_finishes_with_stop_and_its_last_token_is_text() -> None:
    server = build()
    server.says('{"a"', ": 1}", finish="complete")
    assert await both(server, response_format=JSON_SCHEMA) == [Answer('{"a": 1}', "", [], "stop")]
    answer = (await post(server, response_format=JSON_SCHEMA)).json()
    assert answer["usage"]["completion_tokens"] == 8


async def test_the_constraint_waits_for_the_end_of_a_block_the_prompt_opened() -> None:
    server = build(tokenizer=byte_tokenizer(OPENED))
    server.says("Hm.</think>", '{"a":1}', finish="complete")
    assert await whole(server, response_format=JSON_SCHEMA) == [Answer('{"a":1}', "Hm.", [], "stop")]
    assert server.row.constraint == Constraint("json_schema", SOURCE, after="</think>")
    assert server.generation.compiled == [server.row.constraint]
    await post(server, response_format=JSON_SCHEMA, reasoning_effort="none")
    assert server.generation.submitted[-1].constraint == Constraint("json_schema", SOURCE)


async def test_a_raw_continuation_waits_for_nothing() -> None:
    server = build(tokenizer=byte_tokenizer(OPENED))
    server.says("x")
    await post(server, TEXT, prompt="<think>", guided_regex="a")
    assert server.row.constraint == Constraint("regex", "a")


async def test_every_choice_has_the_constraint() -> None:
    server = build()
    server.says("x")
    await post(server, n=3, guided_regex="x")
    assert (server.row.choices, server.row.constraint) == (3, Constraint("regex", "x"))
    assert len(server.generation.compiled) == 1


def structural(server: House) -> dict[str, Any]:
    constraint = server.row.constraint
    assert constraint is not None
    assert constraint.kind == "structural"
    return json.loads(constraint.source)["format"]


async def test_tools_and_a_form_make_an_alternative_of_both() -> None:
    server = build(tokenizer=byte_tokenizer(OPENED))
    server.says("</think>" + hermes("clock"), finish="complete")
    assert await whole(server, tools=[CLOCK], response_format=JSON_SCHEMA) == [
        Answer(None, "", [("clock", "{}")], "tool_calls")
    ]
    form = structural(server)
    assert form["type"] == "or"
    assert form["elements"][0]["json_schema"] == SCHEMA
    assert [tag["begin"] for tag in form["elements"][1]["tags"]] == ['<tool_call>\n{"name": "clock", "arguments": ']
    assert server.row.constraint is not None
    assert server.row.constraint.after == "</think>"


async def test_tools_alone_constrain_nothing() -> None:
    server = build(tokenizer=byte_tokenizer(TOOLS))
    server.says("x")
    await post(server, tools=[CLOCK])
    assert (server.row.constraint, server.generation.compiled) == (None, [])


async def test_a_required_call_is_enforced_by_tags() -> None:
    server = build(tokenizer=byte_tokenizer(TOOLS))
    server.says(hermes("clock"), finish="complete")
    assert await whole(server, tools=[CLOCK, tool("other")], tool_choice="required") == [
        Answer(None, "", [("clock", "{}")], "tool_calls")
    ]
    form = structural(server)
    assert (form["type"], form["at_least_one"], len(form["tags"])) == ("tags_with_separator", True, 2)


async def test_a_required_call_of_harmony_has_its_own_frame() -> None:
    server = build(tokenizer=byte_tokenizer(HARMONY, HARMONY_TOKENS))
    server.says("x")
    await post(server, tools=[CLOCK], tool_choice="required")
    thinking, calls = structural(server)["elements"]
    assert thinking["type"] == "optional"
    assert calls["tags"][0]["begin"] == FRAMES["harmony"].begin.replace("NAME", "clock")


async def test_a_required_call_by_a_name_that_the_family_cannot_write_is_refused() -> None:
    server = build({"generation": {"tool_format": "longcat"}}, tokenizer=byte_tokenizer(TOOLS))
    server.says("x")
    odd = tool("what time")
    response = await post(server, tools=[odd], tool_choice="required")
    assert (response.status_code, response.json()["error"]["message"]) == (
        400,
        "'what time' is not a name that this model's calls can be enforced with",
    )
    assert (await post(server, tools=[odd])).status_code == 200
    assert server.row.constraint is None


async def test_a_scheduler_that_dies_while_it_compiles_is_an_http_error() -> None:
    server = build()

    async def compile(constraint: Constraint) -> str | None:
        raise EngineUnavailable("gone")

    server.generation.compile = compile  # type: ignore[method-assign]
    response = await post(server, guided_regex="a", stream=True)
    assert (response.status_code, response.json()["error"]["type"]) == (502, "engine_unavailable")
    assert server.generation.submitted == []


async def test_a_client_that_leaves_while_its_grammar_compiles_submits_nothing() -> None:
    server = build()
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def compile(constraint: Constraint) -> str | None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return None

    server.generation.compile = compile  # type: ignore[method-assign]
    request = Call(server.app, CHAT, json.dumps(chat(guided_regex="a")).encode())
    await asked.wait()
    request.leave()
    await request.task
    await turns()
    assert cancelled.is_set()
    assert (request.sent, server.generation.submitted) == ([], [])
