"""The official client library over the whole generation contract, its helpers included."""

from __future__ import annotations

from typing import Any, Literal

import openai
import pydantic
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from actors.generation.grammar.constraint import Constraint
from tests.routes.harness import House, build, byte_tokenizer
from tests.routes.reading import hermes
from tests.routes.templates import OPENED

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


class Step(pydantic.BaseModel):
    title: str
    minutes: int


class Plan(pydantic.BaseModel):
    kind: Literal["walk", "ride"]
    steps: list[Step]


class Weather(pydantic.BaseModel):
    """The weather of a city."""

    city: str
    days: int


TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {"name": "Weather", "parameters": Weather.model_json_schema(), "strict": True},
    }
]
PLAN = '{"kind": "walk", "steps": [{"title": "é", "minutes": 5}]}'
CALL = hermes("Weather", city="Paris", days=2)
ARGUMENTS = '{"city":"Paris","days":2}'


@pytest.fixture
def house() -> House:
    return build(tokenizer=byte_tokenizer(OPENED))


async def test_parse_gives_an_object_of_the_class(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("Hm.</think>", PLAN, finish="complete")
    answer = await sdk.chat.completions.parse(model="any", messages=MESSAGES, response_format=Plan)
    assert answer.choices[0].message.parsed == Plan(kind="walk", steps=[Step(title="é", minutes=5)])
    assert answer.choices[0].finish_reason == "stop"
    constraint = house.row.constraint
    assert isinstance(constraint, Constraint)
    assert (constraint.kind, constraint.strict, constraint.after) == ("json_schema", True, "</think>")
    assert '"additionalProperties": false' in constraint.source


async def test_parse_gives_the_arguments_of_a_call_as_an_object(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("</think>", CALL)
    answer = await sdk.chat.completions.parse(
        model="any", messages=MESSAGES, tools=[openai.pydantic_function_tool(Weather)]
    )
    message = answer.choices[0].message
    assert message.content is None
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    assert call.function.parsed_arguments == Weather(city="Paris", days=2)


async def test_the_streaming_helper_gathers_content_and_calls(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("Hm.", "</think>", "Let me", " see. ", *CALL, CALL)
    kinds: list[str] = []
    async with sdk.chat.completions.stream(model="any", messages=MESSAGES, tools=TOOLS) as stream:
        async for event in stream:
            if event.type != "chunk":
                kinds.append(event.type)
        final = await stream.get_final_completion()
    (choice,) = final.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me see."
    assert choice.message.tool_calls is not None
    assert [(call.function.name, call.function.arguments) for call in choice.message.tool_calls] == [
        ("Weather", ARGUMENTS),
        ("Weather", ARGUMENTS),
    ]
    assert len({call.id for call in choice.message.tool_calls}) == 2
    assert kinds.count("tool_calls.function.arguments.delta") == 2
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert kinds.count("content.done") == 1
    assert final.usage is not None
    assert final.usage.completion_tokens == len(f"Hm.</think>Let me see. {CALL}{CALL}") + 1


async def test_the_streaming_helper_parses_structured_output(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("</think>", *PLAN, finish="complete")
    async with sdk.chat.completions.stream(model="any", messages=MESSAGES, response_format=Plan) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].message.parsed == Plan(kind="walk", steps=[Step(title="é", minutes=5)])


async def test_the_streaming_helper_keeps_choices_apart(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says_each(["</think>", "a", "b"], ["</think>x"], ["</think>", CALL])
    async with sdk.chat.completions.stream(model="any", messages=MESSAGES, tools=TOOLS, n=3) as stream:
        final = await stream.get_final_completion()
    told = [(choice.index, choice.message.content, choice.finish_reason) for choice in final.choices]
    assert told == [(0, "ab", "stop"), (1, "x", "stop"), (2, "", "tool_calls")]


async def test_reasoning_is_an_extra_field_of_messages_and_deltas(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("Hm", "m.</think>", "Yes.")
    whole = await sdk.chat.completions.create(model="any", messages=MESSAGES, reasoning_effort="high")
    assert whole.choices[0].message.model_extra == {"reasoning": "Hmm."}
    stream = await sdk.chat.completions.create(model="any", messages=MESSAGES, stream=True)
    extras = [chunk.choices[0].delta.model_extra or {} async for chunk in stream]
    assert [extra["reasoning"] for extra in extras if extra] == ["Hm", "m."]


async def test_an_answer_goes_back_as_history_as_the_library_writes_it(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says("Hm.</think>", CALL)
    first = await sdk.chat.completions.create(model="any", messages=MESSAGES, tools=TOOLS)
    message = first.choices[0].message
    assert message.tool_calls is not None
    history: list[Any] = [
        *MESSAGES,
        message,
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"},
    ]
    house.generation.submitted.clear()
    await sdk.chat.completions.create(model="any", messages=history)
    assert house.prompt == (
        "<|start|>user:hi<|end|><|start|>assistant:(Hm.)<tool_call>Weather city=Paris days=2</tool_call><|end|>"
        "<|start|>tool:sunny<|end|><|start|>assistant:<think>\n"
    )


async def test_a_raw_response_shows_the_warning(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.generation.unenforceable = "too odd"
    house.says("</think>" + PLAN)
    raw = await sdk.chat.completions.with_raw_response.create(
        model="any", messages=MESSAGES, response_format={"type": "json_object"}
    )
    assert raw.headers["warning"] == "grammar not enforced: too odd"


async def test_a_text_completion_has_choices(house: House, sdk: openai.AsyncOpenAI) -> None:
    house.says_each(["a"], ["b"])
    answer = await sdk.completions.create(model="any", prompt="x", n=2, user="u", echo=False)
    assert [(choice.index, choice.text) for choice in answer.choices] == [(0, "a"), (1, "b")]
