"""The generation contract on the real starter: constraints, biases, penalties, seeds, several choices, SDK helpers."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import httpx
import jsonschema
import openai
import pydantic
import pytest
from tokenizers import Tokenizer

from actors.models import starter
from tests.support.schemas import SCHEMAS
from tests.support.talk import CHAT, chat_body, say, streaming

SEA = "Tell me about the sea."
EACH = 5
"""Answers for each of the forty schemas."""
WEATHER = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
STOP = {"type": "object", "properties": {"now": {"type": "boolean"}}, "required": ["now"]}
PARAMETERS: Any = {"get_weather": WEATHER, "stop": STOP}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in PARAMETERS.items()
]


class Place(pydantic.BaseModel):
    """What the SDK is to parse."""

    kind: Literal["city", "river"]
    size: int = pydantic.Field(ge=0, le=99)


def ask(client: openai.OpenAI, question: str, **options: Any) -> Any:
    body: Any = {"model": "any", "messages": [{"role": "user", "content": question}], "max_tokens": 24} | options
    return client.chat.completions.create(**body)


def texts(reply: Any) -> list[str]:
    return [choice.message.content for choice in reply.choices]


def test_200_answers_to_40_schemas_validate(client: openai.OpenAI) -> None:
    def generate(number: int) -> Any:
        # Compact for every second schema, so that both kinds of grammar are tried.
        described = {"name": "example", "schema": SCHEMAS[number], "any_whitespace": number % 2 == 1}
        return ask(
            client,
            "Invent an example, as short JSON.",
            temperature=1,
            seed=number,
            n=EACH,
            max_tokens=48,
            response_format={"type": "json_schema", "json_schema": described},
        )

    with ThreadPoolExecutor(3) as pool:
        replies = list(pool.map(generate, range(len(SCHEMAS))))
    choices = [(schema, choice) for schema, reply in zip(SCHEMAS, replies, strict=True) for choice in reply.choices]
    finished = [(schema, choice.message.content) for schema, choice in choices if choice.finish_reason == "stop"]
    wrong = [(schema, content) for schema, content in finished if not _valid(schema, content)]
    assert len(SCHEMAS) == 40
    assert len(choices) == 200
    assert wrong == []
    assert len(finished) > 150


def _valid(schema: Any, content: str) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(json.loads(content))


@pytest.mark.parametrize("name", [None, "stop", "get_weather"])
def test_a_required_call_has_valid_arguments(client: openai.OpenAI, name: str | None) -> None:
    choice = "required" if name is None else {"type": "function", "function": {"name": name}}
    reply = ask(
        client, "What is it like in Rome?", tools=TOOLS, tool_choice=choice, temperature=1, n=4, max_tokens=80, seed=3
    )
    called = [call.function for answer in reply.choices for call in answer.message.tool_calls or []]
    assert [answer.finish_reason for answer in reply.choices if not answer.message.tool_calls] == []
    assert {answer.message.content for answer in reply.choices} == {None}
    assert {function.name for function in called} <= ({name} if name else set(PARAMETERS))
    for function in called:
        jsonschema.validate(json.loads(function.arguments), PARAMETERS[function.name])


@pytest.mark.parametrize(
    ("constraint", "whole"),
    [
        ({"guided_regex": r"\d{4}-\d{2}(, [a-z]{3,5})?"}, r"\d{4}-\d{2}(, [a-z]{3,5})?"),
        ({"guided_choice": ["yes", "no", 'per"haps\n']}, 'yes|no|per"haps\n'),
        ({"guided_grammar": 'root ::= side " < " side\nside ::= [0-9] | "(" side ")"'}, r"\(*\d\)* < \(*\d\)*"),
    ],
    ids=["regex", "choice", "grammar"],
)
def test_a_guided_answer_matches_as_a_whole(client: openai.OpenAI, constraint: dict[str, Any], whole: str) -> None:
    reply = ask(client, "When?", temperature=1, seed=1, n=8, max_tokens=40, extra_body=constraint)
    finished = [choice.message.content for choice in reply.choices if choice.finish_reason == "stop"]
    assert [text for text in finished if not re.fullmatch(whole, text)] == []
    assert len(finished) >= 4


def token(text: str) -> int:
    (found,) = Tokenizer.from_file(str(starter.ensure(progress=False) / "tokenizer.json")).encode(text).ids
    return found


def test_a_bias_of_100_forces_a_token_and_one_of_minus_100_forbids_it(client: openai.OpenAI) -> None:
    forced = ask(client, SEA, temperature=1, n=4, max_tokens=5, logit_bias={str(token(" sea")): 100})
    assert texts(forced) == [" sea" * 5] * 4
    free = texts(ask(client, SEA, temperature=1, n=8, seed=5, max_tokens=12))
    bias = {str(token("The")): -100, str(token(" The")): -100}
    without = texts(ask(client, SEA, temperature=1, n=8, seed=5, max_tokens=12, logit_bias=bias))
    assert sum("The" in re.findall(r"\w+", text) for text in free) >= 4
    assert sum("The" in re.findall(r"\w+", text) for text in without) == 0


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty", "repetition_penalty"])
def test_a_penalty_makes_an_answer_repeat_itself_less(client: openai.OpenAI, name: str) -> None:
    def repeated(**penalty: float) -> int:
        options: Any = {"model": "any", "prompt": "sea sea sea sea sea sea", "temperature": 0, "max_tokens": 40}
        words = re.findall(r"\w+", client.completions.create(**options, extra_body=penalty).choices[0].text)
        return len(words) - len(set(words))

    plain = repeated()
    assert plain >= 10
    assert repeated(**{name: 1.8}) <= plain / 2


def test_xtc_takes_the_likeliest_tokens_away_and_a_chance_of_0_does_not(client: openai.OpenAI) -> None:
    (likeliest,) = texts(ask(client, SEA, temperature=0, max_tokens=1))

    def begun(probability: float) -> list[str]:
        more = {"xtc_probability": probability, "xtc_threshold": 0.01}
        return texts(ask(client, SEA, temperature=0.1, max_tokens=1, n=8, seed=3, extra_body=more))

    assert likeliest not in begun(1.0)
    assert begun(0.0).count(likeliest) == 8


def test_a_tone_curve_with_a_flat_toe_draws_what_the_temperature_would_not(client: openai.OpenAI) -> None:
    def begun(**curve: object) -> int:
        more = {"hlg": {"width": 0, "shoulder": 0.01, "toe": 0.01, "pivot_offset": 0, **curve}}
        return len(set(texts(ask(client, SEA, temperature=0.1, max_tokens=1, n=8, seed=3, extra_body=more))))

    assert begun(enabled=False) == 1
    assert begun(enabled=True) >= 6


def test_a_seed_repeats_an_answer_alone_and_in_company(client: openai.OpenAI) -> None:
    def answer(seed: int) -> str:
        return texts(ask(client, SEA, temperature=1, seed=seed))[0]

    alone = answer(7)
    assert answer(7) == alone
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(answer, [1, 7, 2, 3, 7, 4, 5, 6]))
    assert (together[1], together[4]) == (alone, alone)
    assert len(set(together)) == 7


def test_four_choices_are_four_answers_with_one_usage(client: openai.OpenAI) -> None:
    reply = ask(client, SEA, temperature=1, seed=9, n=4, max_tokens=16)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    assert len(set(texts(reply))) == 4
    assert reply.usage.completion_tokens == 4 * 16
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 64
    said, usage = ["", "", "", ""], None
    for chunk in ask(client, SEA, temperature=1, seed=9, n=4, max_tokens=16, stream=True):
        for choice in chunk.choices:
            said[choice.index] += choice.delta.content or ""
        usage = chunk.usage or usage
    assert said == texts(reply)
    assert usage is not None
    assert usage.completion_tokens == 64


def test_the_sdk_parses_a_structured_answer(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "What is Rome?"}]
    options: Any = {"model": "any", "messages": messages, "temperature": 0, "response_format": Place}
    parsed = client.chat.completions.parse(**options).choices[0].message.parsed
    assert isinstance(parsed, Place)
    with client.chat.completions.stream(**options) as stream:
        events = [event.type for event in stream]
        streamed = stream.get_final_completion().choices[0].message.parsed
    assert streamed == parsed
    assert events.count("content.delta") > 1
    assert events.count("content.done") == 1


def test_the_sdk_parses_the_arguments_of_a_strict_tool(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "What is Rome?"}]
    tool: Any = openai.pydantic_function_tool(Place, name="place")
    options: Any = {"model": "any", "messages": messages, "temperature": 0, "tools": [tool], "tool_choice": "required"}
    with client.chat.completions.stream(**options, parallel_tool_calls=False) as stream:
        (call,) = stream.get_final_completion().choices[0].message.tool_calls or []
    assert isinstance(call.function.parsed_arguments, Place)


@pytest.mark.parametrize(
    "hostile",
    [
        {"guided_grammar": 'root ::= x x x x x x\nx ::= x x | "a" | "aa" | [a-z]* | ""'},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#"}}}},
    ],
    ids=["grammar", "schema"],
)
async def test_a_hostile_constraint_costs_its_own_request_only(http: httpx.AsyncClient, hostile: Any) -> None:
    alone = await say(http, SEA, max_tokens=40)
    async with streaming(http, SEA, max_tokens=40) as neighbour:
        assert await neighbour.piece()
        answering = asyncio.ensure_future(http.post(CHAT, json=chat_body("Hi!", max_tokens=4, **hostile)))
        assert await neighbour.read() == alone
    answer = await answering
    assert answer.status_code == 200
    assert answer.headers["warning"].startswith("grammar not enforced: ")
    assert answer.json()["choices"][0]["message"]["content"]
