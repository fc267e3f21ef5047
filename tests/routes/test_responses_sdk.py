"""The official client library's way to POST /v1/responses, its helpers included."""

from __future__ import annotations

from typing import Any, Literal

import openai
import pydantic
import pytest

from actors.errors import GenerationFailed
from actors.generation.messages import Delta
from tests.routes.harness import House, build, byte_tokenizer, unpack
from tests.routes.reading import hermes
from tests.routes.templates import OPENED


class Step(pydantic.BaseModel):
    title: str
    minutes: int


class Plan(pydantic.BaseModel):
    kind: Literal["walk", "ride"]
    steps: list[Step]


class Weather(pydantic.BaseModel):
    """The weather of a city."""

    city: str


PLAN = '{"kind": "walk", "steps": [{"title": "é", "minutes": 5}]}'
THE_PLAN = Plan(kind="walk", steps=[Step(title="é", minutes=5)])
TOOL: Any = {
    "type": "function",
    "name": "Weather",
    "strict": True,
    "parameters": {**Weather.model_json_schema(), "additionalProperties": False},
}


@pytest.fixture
def house() -> House:
    return build(tokenizer=byte_tokenizer(OPENED))


async def test_create_gives_text_and_usage(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("Hm.", "</think>", "Hello ", "😀", cached=4)
    response = await sdk.responses.create(model="any", input="hi", instructions="Be brief.", max_output_tokens=50)
    assert (response.status, response.output_text, response.model) == ("completed", "Hello 😀", "org/tiny")
    assert response.usage is not None
    assert response.usage.input_tokens_details.cached_tokens == 4
    assert response.usage.output_tokens_details.reasoning_tokens == 3
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response.output[0].type == "reasoning"
    assert response.output[0].summary[0].text == "Hm."


async def test_the_streaming_helper_gathers_text_thinking_and_calls(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("Hm", ".</think>", "Let ", "me.", hermes("Weather", city="Rome"), hermes("Weather", city="Oslo"))
    text = thought = ""
    async with sdk.responses.stream(model="any", input="hi", tools=[TOOL]) as stream:
        async for event in stream:
            if event.type == "response.output_text.delta":
                text += event.delta
                assert event.snapshot == text
            if event.type == "response.reasoning_summary_text.delta":
                thought += event.delta
        final = await stream.get_final_response()
    assert (text, thought, final.output_text) == ("Let me.", "Hm.", "Let me.")
    calls = [item for item in final.output if item.type == "function_call"]
    assert [call.parsed_arguments for call in calls] == [{"city": "Rome"}, {"city": "Oslo"}]
    assert len({call.call_id for call in calls}) == 2


async def test_parse_gives_an_object_of_the_class(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("</think>", PLAN, finish="complete")
    response = await sdk.responses.parse(model="any", input="hi", text_format=Plan)
    assert response.output_parsed == THE_PLAN
    assert house.row.constraint is not None
    assert (house.row.constraint.kind, house.row.constraint.strict) == ("json_schema", True)


async def test_the_streaming_helper_parses_too(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("</think>", *PLAN, finish="complete")
    async with sdk.responses.stream(model="any", input="hi", text_format=Plan) as stream:
        final = await stream.get_final_response()
    assert final.output_parsed == THE_PLAN


async def test_parse_reads_the_arguments_of_calls(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("</think>", hermes("Weather", city="Rome"))
    tool: Any = openai.pydantic_function_tool(Weather)
    flat: Any = {"type": "function", **tool["function"]}
    response = await sdk.responses.parse(model="any", input="hi", tools=[flat])
    (call,) = response.output
    assert call.type == "function_call"
    assert call.parsed_arguments == {"city": "Rome"}


async def test_a_loop_of_tools_with_stored_responses(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("</think>", hermes("Weather", city="Rome"))
    first = await sdk.responses.create(model="any", input="hi", tools=[TOOL])
    (call,) = first.output
    assert call.type == "function_call"
    house.says("</think>Sunny.")
    second = await sdk.responses.create(
        model="any",
        previous_response_id=first.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "sun"}],
        tools=[TOOL],
    )
    assert second.output_text == "Sunny."
    assert (await sdk.responses.retrieve(second.id)).output_text == "Sunny."
    listed = [item.type async for item in sdk.responses.input_items.list(second.id, order="asc", limit=1)]
    assert listed == ["message", "function_call", "function_call_output"]
    await sdk.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError, match="not found"):
        await sdk.responses.retrieve(second.id)


async def test_a_loop_of_tools_with_the_output_handed_back(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("Hm.</think>See.", hermes("Weather", city="Rome"))
    first = await sdk.responses.create(model="any", input="hi", tools=[TOOL], store=False)
    given: Any = [{"role": "user", "content": "hi"}, *first.output]
    given.append({"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "sun"})  # type: ignore[union-attr]
    house.generation.submitted.clear()
    await sdk.responses.create(model="any", input=given, store=False)
    assert house.context.tokenizer.decode(unpack(house.row.prompt)) == (
        "<|start|>user:hi<|end|><|start|>assistant:See.<tool_call>Weather city=Rome</tool_call><|end|>"
        "<|start|>tool:sun<|end|><|start|>assistant:<think>\n"
    )


async def test_a_cut_answer_is_incomplete(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("</think>Hel", finish="length")
    response = await sdk.responses.create(model="any", input="hi", max_output_tokens=3)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


async def test_a_failure_in_mid_stream_is_told(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.generation.script = lambda row: [Delta(row.request_id, (65,)), GenerationFailed("the row failed")]
    stream = await sdk.responses.create(model="any", input="hi", stream=True)
    last = [event async for event in stream][-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.message == "the row failed"


async def test_errors_are_told_apart_by_their_status(house: House, sdk: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature must be at most 5") as refused:
        await sdk.responses.create(model="any", input="hi", temperature=9)
    assert (refused.value.type, refused.value.param, refused.value.code) == ("invalid_request_error", None, None)
    with pytest.raises(openai.NotFoundError, match="previous response with id 'resp_x' not found"):
        await sdk.responses.create(model="any", input="hi", previous_response_id="resp_x")
    with pytest.raises(openai.BadRequestError, match="background is not supported"):
        await sdk.responses.create(model="any", input="hi", background=True)
