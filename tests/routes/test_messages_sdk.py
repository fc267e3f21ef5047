"""Anthropic's own client library on the way to POST /v1/messages, its helpers included."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, Literal

import anthropic
import httpx2
import pydantic
import pytest

from actors.errors import GenerationFailed, QueueFull
from actors.generation.messages import Delta, Submit
from tests.routes.harness import END, House, build, byte_tokenizer, unpack
from tests.routes.reading import hermes
from tests.routes.scripted_generation import Step
from tests.routes.templates import THINK

ASKED: Any = [{"role": "user", "content": "hi"}]
SCHEMA: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {"name": "weather", "description": "Forecast.", "input_schema": SCHEMA}
CALLED = hermes("weather", city="Zürich")
LIMIT: Any = {"model": "any", "max_tokens": 200}


class Walk(pydantic.BaseModel):
    kind: Literal["walk", "ride"]
    minutes: int


@pytest.fixture
def house() -> House:
    return build({"server": {"api_key": "key"}}, tokenizer=byte_tokenizer(THINK))


@pytest.fixture
async def sdk(house: House) -> AsyncIterator[anthropic.AsyncAnthropic]:
    client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=house.app))
    async with anthropic.AsyncAnthropic(
        base_url="http://localhost", api_key="key", http_client=client, max_retries=0
    ) as library:
        yield library


def prompts(house: House) -> list[str]:
    return [house.context.tokenizer.decode(unpack(row.prompt)) for row in house.generation.submitted]


def says_in_turn(house: House, *answers: str) -> None:
    """One answer a request."""
    left = list(answers)

    def script(submit: Submit) -> Iterable[Step]:
        yield Delta(submit.request_id, cached_tokens=0)
        yield Delta(submit.request_id, tuple(house.context.tokenizer.encode(left.pop(0))))
        yield Delta(submit.request_id, (END,), finish="stop")

    house.generation.script = script


async def test_create_gives_blocks_and_usage(house: House, sdk: anthropic.AsyncAnthropic) -> None:
    house.says("<think>\nHm.\n</think>\n\nHello 😀", cached=4)
    said = await sdk.messages.create(messages=ASKED, system="Be brief.", **LIMIT)
    thought, spoken = said.content
    assert thought.type == "thinking" and thought.thinking == "Hm." and thought.signature
    assert spoken.type == "text" and spoken.text == "Hello 😀"
    assert (said.stop_reason, said.model, said._request_id) == ("end_turn", "org/tiny", said.id)
    assert said.usage.cache_read_input_tokens == 4
    assert said.usage.input_tokens + 4 == len(house.row.prompt) // 4


async def test_raw_events_are_read_one_by_one(house: House, sdk: anthropic.AsyncAnthropic) -> None:
    house.says("He", "llo", finish="length")
    stream = await sdk.messages.create(messages=ASKED, stream=True, **LIMIT)
    kinds = [event.type async for event in stream]
    deltas = ["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"]
    assert kinds == ["message_start", *deltas, "message_delta", "message_stop"]


async def test_the_stream_helper_gives_text_as_it_comes(house: House, sdk: anthropic.AsyncAnthropic) -> None:
    house.says("<think>\nHm.\n</think>\n\nHe", "llo", " END", cached=3)
    async with sdk.messages.stream(messages=ASKED, stop_sequences=["END"], **LIMIT) as stream:
        assert [text async for text in stream.text_stream] == ["He", "llo", " "]
        said = await stream.get_final_message()
        assert await stream.get_final_text() == "Hello "
    assert (said.stop_reason, said.stop_sequence) == ("stop_sequence", "END")
    assert said.usage.cache_read_input_tokens == 3
    assert said.usage.output_tokens > 0
    assert said.content[0].type == "thinking" and said.content[0].signature


async def test_the_stream_helper_follows_thinking_and_arguments(house: House, sdk: anthropic.AsyncAnthropic) -> None:
    house.says("<think>\nH", "m.\n</think>\n\n", CALLED, CALLED)
    async with sdk.messages.stream(messages=ASKED, tools=[TOOL], **LIMIT) as stream:
        thoughts, inputs = [], []
        async for event in stream:
            if event.type == "thinking":
                thoughts.append(event.snapshot)
            elif event.type == "input_json":
                inputs.append(event.snapshot)
        said = await stream.get_final_message()
    assert thoughts == ["H", "Hm."]
    assert inputs == [{"city": "Zürich"}] * 2
    assert [block.type for block in said.content] == ["thinking", "tool_use", "tool_use"]
    assert said.stop_reason == "tool_use"


async def test_a_message_is_handed_back_with_the_result_of_its_call(
    house: House, sdk: anthropic.AsyncAnthropic
) -> None:
    says_in_turn(house, f"<think>\nHm.\n</think>\n\n{CALLED}", "Rain.")
    first = await sdk.messages.create(messages=ASKED, tools=[TOOL], **LIMIT)
    (call,) = [block for block in first.content if block.type == "tool_use"]
    result: Any = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "It pours."}],
    }
    second = await sdk.messages.create(
        messages=[*ASKED, {"role": "assistant", "content": first.content}, result], tools=[TOOL], **LIMIT
    )
    assert second.content[0].type == "text" and second.content[0].text == "Rain."
    assert prompts(house)[1].endswith(
        "<|start|>assistant:<tool_call>weather city=Zürich</tool_call><|end|>"
        "<|start|>tool:It pours.<|end|><|start|>assistant:"
    )


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_tool_runner_goes_round_until_the_answer(
    house: House, sdk: anthropic.AsyncAnthropic, streamed: bool
) -> None:
    asked: list[str] = []

    @anthropic.beta_async_tool
    async def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "It pours."

    says_in_turn(house, CALLED, "Take an umbrella.")
    runner: Any = sdk.beta.messages.tool_runner(messages=ASKED, tools=[weather], stream=streamed, **LIMIT)
    said = await runner.until_done()
    assert asked == ["Zürich"]
    assert said.content[0].text == "Take an umbrella."
    assert "<|start|>tool:It pours.<|end|>" in prompts(house)[1]


async def test_a_pydantic_model_is_the_form_of_an_answer(house: House, sdk: anthropic.AsyncAnthropic) -> None:
    house.says('{"kind": "walk", "minutes": 5}')
    said = await sdk.messages.parse(messages=ASKED, output_format=Walk, **LIMIT)
    assert said.parsed_output == Walk(kind="walk", minutes=5)
    assert house.row.constraint is not None
    assert house.row.constraint.kind == "json_schema"


async def test_tokens_are_counted(house: House, sdk: anthropic.AsyncAnthropic) -> None:
    house.says("x")
    counted = await sdk.messages.count_tokens(model="any", messages=ASKED, tools=[TOOL], system="Be brief.")
    said = await sdk.messages.create(messages=ASKED, tools=[TOOL], system="Be brief.", **LIMIT)
    beta = await sdk.beta.messages.count_tokens(model="any", messages=ASKED, tools=[TOOL], system="Be brief.")
    assert counted.input_tokens == beta.input_tokens == said.usage.input_tokens


async def test_errors_are_told_apart(house: House, sdk: anthropic.AsyncAnthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="messages required") as refused:
        await sdk.messages.create(messages=[], **LIMIT)
    assert refused.value.type == "invalid_request_error"
    with pytest.raises(anthropic.AuthenticationError):
        await sdk.with_options(api_key="wrong").messages.create(messages=ASKED, **LIMIT)
    house.generation.refusal = QueueFull("the line is full")
    with pytest.raises(anthropic.RateLimitError):
        await sdk.messages.create(messages=ASKED, **LIMIT)
    house.generation.described = None
    with pytest.raises(anthropic.InternalServerError, match="restarting"):
        await sdk.messages.create(messages=ASKED, **LIMIT)


async def test_an_error_in_a_stream_is_raised_to_the_reader(house: House, sdk: anthropic.AsyncAnthropic) -> None:
    house.generation.script = lambda row: [Delta(row.request_id, (65,)), GenerationFailed("the row failed")]
    async with sdk.messages.stream(messages=ASKED, **LIMIT) as stream:
        with pytest.raises(anthropic.APIStatusError, match="the row failed"):
            await stream.until_done()
