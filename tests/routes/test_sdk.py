"""The official client library reads what the routes write."""

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from actors.errors import GenerationFailed
from actors.generation.messages import Delta
from tests.routes.harness import House, build

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


@pytest.fixture
def house() -> House:
    return build({"server": {"api_key": "key"}})


async def test_a_whole_chat_answer(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("Hello", cached=5)
    answer = await sdk.chat.completions.create(model="any", messages=MESSAGES, max_tokens=20)
    assert answer.choices[0].message.content == "Hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 5
    assert answer._request_id == answer.id


async def test_a_streamed_chat_answer(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("He", "llo 😀", finish="length")
    stream = await sdk.chat.completions.create(
        model="any", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello 😀"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "length"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 10


async def test_a_text_completion_both_ways(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("more")
    whole = await sdk.completions.create(model="any", prompt="once")
    stream = await sdk.completions.create(model="any", prompt="once", stream=True)
    assert whole.choices[0].text == "".join([chunk.choices[0].text async for chunk in stream]) == "more"


async def test_an_error_in_a_stream_is_raised_to_the_reader(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.generation.script = lambda row: [Delta(row.request_id, (65,)), GenerationFailed("the row failed")]
    stream = await sdk.chat.completions.create(model="any", messages=MESSAGES, stream=True)
    with pytest.raises(openai.APIError, match="the row failed"):
        async for _ in stream:
            continue


async def test_errors_are_told_apart_by_their_status(house: House, sdk: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature must be at most 5") as refused:
        await sdk.chat.completions.create(model="any", messages=MESSAGES, temperature=9)
    assert refused.value.type == "invalid_request_error"
    house.generation.described = None
    with pytest.raises(openai.InternalServerError, match="restarting"):
        await sdk.chat.completions.create(model="any", messages=MESSAGES)
    wrong = sdk.with_options(api_key="wrong")
    with pytest.raises(openai.AuthenticationError):
        await wrong.chat.completions.create(model="any", messages=MESSAGES)


async def test_the_list_of_models(sdk: openai.AsyncOpenAI) -> None:
    models = [model async for model in await sdk.models.list()]
    assert [model.id for model in models] == ["org/tiny"]
