"""The Responses protocol through the whole server and the official SDK: scripted models, and the starter on Ray."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pydantic
import pytest

from tests.serving.test_reasoning import MINDS, Mind
from tests.support import codex
from tests.support.company import Company, run_company
from tests.support.server import Server

THOUGHT = "Hm: {a} < b?\n\nYes & no 🌧"
PROSE = "It rains – 1 < 2."
CALLS = [("get_weather", {"city": "Zürich 🌧"}), ("get_weather", {"city": "Oslo"})]
CAPITAL = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL: Any = {"type": "function", "name": "get_weather", "strict": True, "parameters": SCHEMA}


class Place(pydantic.BaseModel):
    city: str


@pytest.fixture(scope="module", params=MINDS, ids=lambda mind: mind.label)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Mind, Company]]:
    mind: Mind = request.param
    path = mind.checkpoint(tmp_path_factory.mktemp("responses") / mind.label)
    settings = {"trust_model_code": True, "max_tokens": 400, "temperature": 0}
    with run_company({"model": str(path), "generation": settings}) as company:
        yield mind, company


def script(mind: Mind, calls: list[Any]) -> str:
    return mind.think(THOUGHT, mind.form.write(PROSE, calls))


def read(response: Any) -> list[tuple[str, object]]:
    """What the items of a response say."""
    found: list[tuple[str, object]] = []
    for item in response.output:
        if item.type == "reasoning":
            found.append((item.type, item.summary[0].text))
        elif item.type == "message":
            found.append((item.type, item.content[0].text))
        else:
            found.append((item.type, (item.name, json.loads(item.arguments))))
    return found


SAID = [("reasoning", THOUGHT), ("message", PROSE), *(("function_call", call) for call in CALLS)]


def test_thinking_text_and_parallel_calls_are_items_whole_and_streamed(scene: tuple[Mind, Company]) -> None:
    mind, company = scene
    with company.client() as client:
        asked: dict[str, Any] = {"model": "any", "input": script(mind, CALLS), "tools": [TOOL]}
        whole = client.responses.create(**asked)
        with client.responses.stream(**asked) as stream:
            numbers = [event.sequence_number for event in stream]
            streamed = stream.get_final_response()
    assert read(whole) == SAID
    assert read(streamed) == SAID
    assert numbers == list(range(len(numbers)))
    assert whole.usage is not None
    thought = whole.usage.output_tokens_details.reasoning_tokens
    assert len(THOUGHT.encode()) <= thought <= len((mind.opening + THOUGHT + mind.ending + mind.gap).encode())


def test_a_call_is_answered_by_way_of_the_stored_response(scene: tuple[Mind, Company]) -> None:
    mind, company = scene
    with company.client() as client:
        first = client.responses.create(model="any", input=script(mind, CALLS), tools=[TOOL], instructions="Hm.")
        results: Any = [
            {"type": "function_call_output", "call_id": item.call_id, "output": "sun"}
            for item in first.output
            if item.type == "function_call"
        ]
        results.append({"role": "user", "content": script(mind, [])})
        second = client.responses.create(model="any", previous_response_id=first.id, input=results, tools=[TOOL])
        kept = client.responses.retrieve(second.id)
    assert read(second) == read(kept) == SAID[:2]
    assert (second.instructions, second.previous_response_id) == ("Hm.", first.id)


def test_parse_reads_an_object_behind_the_thinking(scene: tuple[Mind, Company]) -> None:
    mind, company = scene
    tight = "" if mind.label != "harmony" else mind.gap
    answer = "<|channel|>final<|message|>" if mind.label == "harmony" else ""
    text = f"{mind.opening}{THOUGHT}{mind.ending}{tight}{answer}" + json.dumps({"city": "Rome"})
    more: Any = {"chat_template_kwargs": {"enable_thinking": True}} if mind.label != "harmony" else {}
    with company.client() as client:
        response = client.responses.parse(model="any", input=text, text_format=Place, extra_body=more)
    assert response.output_parsed == Place(city="Rome")
    assert read(response)[0] == ("reasoning", THOUGHT)


def test_a_turn_of_codex_is_answered(scene: tuple[Mind, Company]) -> None:
    mind, company = scene
    said = mind.think(THOUGHT, mind.form.write("", [(codex.PATCH, {"input": "*** Begin Patch"})]).strip())
    body = codex.body(codex.message("user", "Fix it."), *codex.history(), codex.message("user", said))
    with httpx.Client(timeout=60) as client:
        lines = client.post(f"{company.url}/v1/responses", json=body).text.splitlines()
    last = json.loads(lines[-2].removeprefix("data: "))
    assert last["type"] == "response.completed"
    calls = [item for item in last["response"]["output"] if item["type"] == "custom_tool_call"]
    assert [(call["name"], call["input"]) for call in calls] == [(codex.PATCH, "*** Begin Patch")]


def test_the_starter_says_what_it_says_in_a_chat(client: openai.OpenAI) -> None:
    chat = client.chat.completions.create(model="any", messages=[{"role": "user", "content": CAPITAL}], temperature=0)
    whole = client.responses.create(model="any", input=CAPITAL, temperature=0)
    with client.responses.stream(model="any", input=CAPITAL, temperature=0) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        streamed = stream.get_final_response()
    assert chat.choices[0].message.content == whole.output_text == streamed.output_text == "".join(pieces) == ANSWER
    assert len(pieces) > 3
    assert chat.usage is not None
    assert whole.usage is not None
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (
        chat.usage.prompt_tokens,
        chat.usage.completion_tokens,
    )


def test_the_starter_goes_on_from_a_stored_response_with_a_warm_cache(client: openai.OpenAI, server: Server) -> None:
    first = client.responses.create(model="any", input=CAPITAL, temperature=0)
    second = client.responses.create(
        model="any", input="And of Italy?", previous_response_id=first.id, temperature=0, max_output_tokens=20
    )
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.total_tokens - 2
    assert server.statistics()["response_store"]["entries"] >= 2
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="any", input="So?", previous_response_id=second.id)


def test_the_starter_follows_a_schema_and_calls_what_it_must(client: openai.OpenAI) -> None:
    place = client.responses.parse(
        model="any", input="Name a city.", text_format=Place, temperature=0, max_output_tokens=60
    )
    assert place.status == "incomplete" or isinstance(place.output_parsed, Place)
    assert place.output_text.startswith("{")
    called = client.responses.create(
        model="any", input=CAPITAL, tools=[TOOL], tool_choice="required", temperature=0, max_output_tokens=80
    )
    assert [item.type for item in called.output] == ["function_call"] or called.status == "incomplete"


def test_a_turn_of_codex_is_answered_by_the_starter(server: Server) -> None:
    body = codex.body(codex.message("user", "Say hello."), max_output_tokens=8)
    with httpx.Client(timeout=120) as client:
        response = client.post(f"{server.url}/v1/responses", json=body)
    last = json.loads(response.text.splitlines()[-2].removeprefix("data: "))
    assert last["type"] in ("response.completed", "response.incomplete")
    assert last["response"]["usage"]["output_tokens"] <= 8


def test_on_ray_the_store_is_an_actor_of_its_own(server: Server) -> None:
    assert server.actor("ResponseStore").pid != server.actor("troupe:Ingress").pid
