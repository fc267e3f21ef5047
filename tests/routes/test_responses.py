"""POST /v1/responses over a scripted scheduler."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from actors.errors import GenerationFailed
from actors.generation.messages import Delta
from routes.answer import HEARTBEAT_S
from tests.routes.call import Call, turns
from tests.routes.harness import House, build, byte_tokenizer, connect, unpack
from tests.routes.reading import hermes
from tests.routes.responding import PATH, anonymous, events, kinds, last_prompt, post, streamed, whole
from tests.routes.templates import OPENED, TOOLS

WEATHER = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
PATCH = {"type": "custom", "name": "patch", "description": "Edits."}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture
def house() -> House:
    return build(tokenizer=byte_tokenizer(OPENED))


async def test_a_response_repeats_its_request_and_counts_its_tokens(house: House) -> None:
    house.says("Hm.", "</think>", "Hello.", cached=7)
    response = await whole(
        house,
        instructions="Be brief.",
        max_output_tokens=90,
        temperature=0.5,
        metadata={"a": "b"},
        user="u",
        reasoning={"effort": "high", "summary": "auto"},
        truncation="auto",
    )
    reasoning, message = response.pop("output")
    assert response.pop("id") == house.row.request_id
    assert response.pop("created_at") > 0
    assert response == {
        "object": "response",
        "model": "org/tiny",
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": "Be brief.",
        "max_output_tokens": 90,
        "metadata": {"a": "b"},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": "high", "summary": "auto"},
        "store": True,
        "temperature": 0.5,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "auto",
        "user": "u",
        "usage": {
            "input_tokens": len(unpack(house.row.prompt)),
            "input_tokens_details": {"cached_tokens": 7, "cache_write_tokens": 0},
            "output_tokens": 18,
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": len(unpack(house.row.prompt)) + 18,
            "lane": "batched",
        },
    }
    assert (reasoning["type"], reasoning["summary"]) == ("reasoning", [{"type": "summary_text", "text": "Hm."}])
    assert message["content"] == [{"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}]
    assert (message["role"], message["status"]) == ("assistant", "completed")
    assert house.row.max_tokens == 90
    assert last_prompt(house) == "<|start|>system:Be brief.<|end|><|start|>user:hi<|end|><|start|>assistant:<think>\n"


async def test_a_stream_has_every_event_in_order(house: House) -> None:
    house.says("H", "m.", "</think>", "Let me", " see.", hermes("weather", city="Rome"), hermes("weather"))
    found = await streamed(house, tools=[WEATHER])
    assert kinds(found) == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        *["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"] * 2,
        "completed",
    ]
    deltas = [event["delta"] for event in found if event["type"].endswith(".delta")]
    assert deltas == ["H", "m.", "Let me", " see.", '{"city":"Rome"}', "{}"]
    done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    assert done == found[-1]["response"]["output"]
    assert len({item["call_id"] for item in done[2:]}) == 2
    assert found[0]["response"]["status"] == found[1]["response"]["status"] == "in_progress"
    assert found[0]["response"]["output"] == []
    assert found[0]["response"]["usage"] is None


@pytest.mark.parametrize(
    "said", [["Hm.</think>", "Hello."], ["</think>"], ["Hm."], ["</think>", "See: ", hermes("weather", city="Rome")]]
)
@pytest.mark.parametrize("finish", ["stop", "length"])
async def test_a_stream_ends_in_what_the_whole_response_is(house: House, said: list[str], finish: str) -> None:
    house.says(*said, finish=finish)
    response = await whole(house, tools=[WEATHER])
    found = await streamed(house, tools=[WEATHER])
    assert anonymous(found[-1]["response"]) == anonymous(response)


async def test_what_max_output_tokens_cuts_off_is_incomplete(house: House) -> None:
    house.says("</think>", "Hel", finish="length")
    found = await streamed(house)
    response = found[-1]["response"]
    assert found[-1]["type"] == "response.incomplete"
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert [item["status"] for item in response["output"]] == ["incomplete"]


async def test_who_says_nothing_has_said_an_empty_message(house: House) -> None:
    house.says("</think>")
    (message,) = (await whole(house))["output"]
    assert message["content"][0]["text"] == ""


async def test_thinking_that_goes_on_after_the_message_is_an_item_of_its_own() -> None:
    house = build(tokenizer=byte_tokenizer(TOOLS + "{# <think> </think> enable_thinking #}"))
    house.says("<think>a</think>", "b", hermes("weather"), "c")
    output = (await whole(house, tools=[WEATHER]))["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "message"]


async def test_a_custom_tool_is_called_with_plain_text(house: House) -> None:
    house.says("</think>", hermes("patch", input='*** Begin\n"x"'))
    found = await streamed(house, tools=[PATCH, WEATHER])
    assert kinds(found)[2:] == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
        "completed",
    ]
    (item,) = found[-1]["response"]["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "patch", '*** Begin\n"x"')
    assert found[3]["delta"] == found[4]["input"] == item["input"]


async def test_a_custom_tool_called_in_another_way_gets_all_that_was_written(house: House) -> None:
    house.says("</think>", hermes("patch", text="x"))
    (item,) = (await whole(house, tools=[PATCH]))["output"]
    assert item["input"] == '{"text":"x"}'


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ({"type": "json_schema", "name": "s", "schema": SCHEMA, "strict": True}, "json_schema"),
        ({"type": "json_object"}, "json"),
        ({"type": "text"}, None),
        (None, None),
    ],
)
async def test_a_text_format_is_enforced_behind_the_thinking(
    house: House, form: dict[str, Any] | None, kind: str | None
) -> None:
    house.says("</think>", "{}", finish="complete")
    response = await whole(house, text={"format": form, "verbosity": "low"})
    constraint = house.row.constraint
    assert (None if constraint is None else constraint.kind) == kind
    assert response["text"] == {"format": form or {"type": "text"}, "verbosity": "low"}
    if constraint is not None:
        assert constraint.after == "</think>"
        assert json.loads(constraint.source or "null") == (SCHEMA if kind == "json_schema" else None)


async def test_a_form_that_cannot_be_enforced_is_asked_for_and_warned_of(house: House) -> None:
    house.generation.unenforceable = "too odd"
    house.says("</think>{}")
    response = await post(house, text={"format": {"type": "json_object"}}, instructions="Hm.")
    assert response.headers["warning"] == "grammar not enforced: too odd"
    assert "Answer with valid JSON only" in last_prompt(house)


async def test_a_required_call_is_enforced(house: House) -> None:
    house.says("</think>", hermes("weather"), finish="complete")
    response = await whole(house, tools=[WEATHER, PATCH], tool_choice={"type": "function", "name": "weather"})
    assert response["tool_choice"] == {"type": "function", "name": "weather"}
    assert house.row.constraint is not None
    assert house.row.constraint.kind == "structural"


@pytest.mark.parametrize(("effort", "thinks"), [("none", False), ("minimal", True), ("max", True), (None, True)])
async def test_the_effort_opens_or_closes_thinking(house: House, effort: str | None, thinks: bool) -> None:
    house.says("</think>x")
    await whole(house, reasoning={"effort": effort})
    assert last_prompt(house).endswith("<think>\n" if thinks else "<think></think>")


async def test_sampling_extras_pass_through(house: House) -> None:
    house.says("</think>x")
    await whole(
        house,
        top_k=5,
        top_p=0.5,
        min_p=0.1,
        seed=7,
        xtc_probability=0.5,
        xtc_threshold=0.2,
        logit_bias={"42": -5},
        repetition_penalty=1.1,
        repetition_context_size=9,
        presence_penalty=0.5,
        frequency_penalty=0.25,
        max_tokens=33,
        prompt_cache_key="chat-1",
        n=3,
    )
    sampling = house.row.sampling
    assert (sampling.top_k, sampling.top_p, sampling.min_p, sampling.seed) == (5, 0.5, 0.1, 7)
    assert (sampling.xtc_probability, sampling.xtc_threshold) == (0.5, 0.2)
    assert (sampling.logit_bias, sampling.repetition_penalty, sampling.repetition_window) == (((42, -5.0),), 1.1, 9)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.5, 0.25)
    assert (house.row.max_tokens, house.row.session, house.row.choices) == (33, "chat-1", 1)


async def test_a_failure_in_mid_stream_is_an_event(house: House) -> None:
    house.generation.script = lambda row: [
        Delta(row.request_id, tuple(house.context.tokenizer.encode("</think>Hel"))),
        GenerationFailed("the row failed"),
    ]
    found = await streamed(house)
    response = found[-1]["response"]
    assert kinds(found)[-4:] == ["output_text.done", "content_part.done", "output_item.done", "failed"]
    assert (response["status"], response["error"]) == (
        "failed",
        {"code": "server_error", "message": "the row failed"},
    )
    assert response["output"][0]["status"] == "incomplete"
    async with connect(house) as client:
        assert (await client.get(f"{PATH}/{response['id']}")).status_code == 404


async def test_a_long_call_does_not_leave_the_client_in_silence(house: House) -> None:
    markup = hermes("weather", city="Rome")

    def script(row: Any) -> Any:
        yield Delta(row.request_id, tuple(house.context.tokenizer.encode("</think>" + markup[:30])))
        house.clock.advance(HEARTBEAT_S)
        yield Delta(row.request_id, tuple(house.context.tokenizer.encode(markup[30:40])))
        yield Delta(row.request_id, tuple(house.context.tokenizer.encode(markup[40:])))
        yield House.delta(row.request_id, (256,), finish="stop")

    house.generation.script = script
    response = await post(house, stream=True, tools=[WEATHER])
    assert ": keep-alive\n\n" in response.text
    assert events(response.text)[-1]["type"] == "response.completed"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_ends_its_row_and_stores_nothing(house: House, stream: bool) -> None:
    endless = asyncio.Event()
    house.generation.script = lambda row: [Delta(row.request_id, (65,)), endless]
    call = Call(house.app, PATH, json.dumps({"input": "hi", "stream": stream}).encode())
    await house.generation.entered.wait()
    await turns()
    call.leave()
    await call.task
    assert house.generation.cancelled == [house.row.request_id]
    assert (await house.context.responses.statistics()).entries == 0
