"""Tool calls through the chat route."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from actors.generation.messages import Delta, Submit
from routes.answer import HEARTBEAT_S
from tests.routes.harness import END, House, build, byte_tokenizer, events
from tests.routes.reading import Answer, both, deltas, halves, hermes, post, streamed, tool, whole
from tests.routes.scripted_generation import Step
from tests.routes.templates import HARMONY, HARMONY_TOKENS, TOOLS

WEATHER = tool("weather", city="string", days="integer")
CLOCK = tool("clock")
OFFERED = [WEATHER, CLOCK]
PARIS = ("weather", '{"city":"Paris","days":2}')
NOON = ("clock", "{}")
CALL = hermes("weather", city="Paris", days=2)
NAMED = {"type": "function", "function": {"name": "weather"}}


def house(**settings: Any) -> House:
    return build(settings or None, tokenizer=byte_tokenizer(TOOLS))


async def test_a_call_alone_has_null_content_and_finishes_with_tool_calls() -> None:
    server = house()
    server.says(CALL)
    answer = (await post(server, tools=OFFERED)).json()
    (choice,) = answer["choices"]
    (call,) = choice["message"].pop("tool_calls")
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": None},
        "finish_reason": "tool_calls",
    }
    assert len(call.pop("id")) == len("call_") + 24
    assert call == {"type": "function", "function": {"name": PARIS[0], "arguments": PARIS[1]}}
    assert answer["usage"]["completion_tokens"] == len(CALL.encode()) + 1


async def test_a_streamed_call_is_one_delta_of_the_whole_call() -> None:
    server = house()
    server.says(*CALL)
    (delta,) = await deltas(server, tools=OFFERED)
    (call,) = delta.pop("tool_calls")
    assert delta == {}
    assert call.pop("id").startswith("call_")
    assert call == {"index": 0, "type": "function", "function": {"name": PARIS[0], "arguments": PARIS[1]}}


async def test_several_calls_have_indexes_and_ids_of_their_own() -> None:
    server = house()
    server.says(f"{CALL}\n{hermes('clock')}")
    assert await both(server, tools=OFFERED) == [Answer(None, "", [PARIS, NOON], "tool_calls")]
    made = await deltas(server, tools=OFFERED)
    assert [delta["tool_calls"][0]["index"] for delta in made] == [0, 1]
    assert len({delta["tool_calls"][0]["id"] for delta in made}) == 2


async def test_words_before_the_markup_stream_live_and_no_markup_leaks() -> None:
    server = house()
    server.says("Let ", "me see", ". <tool", '_call>\n{"na', *CALL[len('<tool_call>\n{"na') :])
    made = await deltas(server, tools=OFFERED)
    assert made[:3] == [{"content": "Let"}, {"content": " me see"}, {"content": "."}]
    assert [list(delta) for delta in made[3:]] == [["tool_calls"]]
    assert await both(server, tools=OFFERED) == [Answer("Let me see.", "", [PARIS], "tool_calls")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Look: {CALL}", Answer("Look:", "", [PARIS], "tool_calls")),
        (f"{CALL}\n{hermes('clock')} done", Answer("done", "", [PARIS, NOON], "tool_calls")),
        (hermes("weather", city="é😀</tool_call>"), Answer(None, "", [("weather", '{"city":"é😀</tool_call>"}')])),
        (f"a {hermes('nobody', x=1)} b", Answer(f"a {hermes('nobody', x=1)} b", "", [], "stop")),
        ("<tool_call>no call</tool_call>", Answer("<tool_call>no call</tool_call>", "", [], "stop")),
    ],
    ids=["prose", "two", "unicode and closer", "unknown", "broken"],
)
async def test_a_cut_at_any_token_gives_the_same_answer(text: str, expected: Answer) -> None:
    server = house()
    tokens = server.context.tokenizer.encode(text)
    expected.finish = expected.finish or "tool_calls"
    for at in range(len(tokens) + 1):
        server.gives(tokens[:at], tokens[at:])
        assert await streamed(server, tools=OFFERED) == [expected], tokens[:at]
    server.gives(*[[token] for token in tokens])
    assert await both(server, tools=OFFERED) == [expected]


async def test_a_name_nobody_offered_is_content() -> None:
    server = house()
    text = hermes("rm_rf", path="/")
    server.says(text)
    assert await both(server, tools=OFFERED) == [Answer(text, "", [], "stop")]


async def test_without_tools_markup_is_content() -> None:
    server = house()
    server.says(CALL)
    assert await both(server) == [Answer(CALL, "", [], "stop")]
    assert await both(server, tools=[]) == [Answer(CALL, "", [], "stop")]


async def test_a_choice_of_none_hides_the_tools() -> None:
    server = house()
    server.says(CALL)
    assert await whole(server, tools=OFFERED, tool_choice="none") == [Answer(CALL, "", [], "stop")]
    assert server.prompt == "<|start|>user:hi<|end|><|start|>assistant:"


async def test_tools_reach_the_template_as_they_came() -> None:
    server = house()
    server.says("x")
    await post(server, tools=OFFERED)
    shown = server.prompt.split("[tools]")[1].split("[/tools]")[0]
    assert json.loads(shown) == OFFERED


async def test_a_named_choice_shows_all_tools_and_takes_only_calls_of_that_one() -> None:
    server = house()
    server.says(hermes("clock") + CALL)
    assert await whole(server, tools=OFFERED, tool_choice=NAMED) == [Answer(hermes("clock"), "", [PARIS], "tool_calls")]
    assert '"clock"' in server.prompt


@pytest.mark.parametrize("stream", [False, True])
async def test_without_parallel_calls_the_row_is_cancelled_after_the_first(stream: bool) -> None:
    server = house()
    server.says(f"Well. {CALL}\n", hermes("clock"), "never read")
    read = streamed if stream else whole
    assert await read(server, tools=OFFERED, parallel_tool_calls=False) == [Answer("Well.", "", [PARIS], "tool_calls")]
    assert server.generation.cancelled == [server.row.request_id]


async def test_without_parallel_calls_what_follows_in_the_same_step_is_dropped() -> None:
    server = house()
    server.says(f"{CALL}{hermes('clock')} and more")
    assert await both(server, tools=OFFERED, parallel_tool_calls=False) == [Answer(None, "", [PARIS], "tool_calls")]


async def test_harmony_honours_parallel_tool_calls_too() -> None:
    server = build(tokenizer=byte_tokenizer(HARMONY, HARMONY_TOKENS))
    one = "<|channel|>commentary to=functions.clock <|constrain|>json<|message|>{}<|call|>"
    server.says(one, f"<|start|>assistant{one}")
    assert await both(server, tools=OFFERED) == [Answer(None, "", [NOON, NOON], "tool_calls")]
    server.generation.submitted.clear()
    assert await whole(server, tools=OFFERED, parallel_tool_calls=False) == [Answer(None, "", [NOON], "tool_calls")]
    assert server.generation.cancelled == [server.row.request_id]


HALF = '<tool_call>\n{"name": "weather", "arguments": {"city": "Par'


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (HALF, Answer(HALF, "", [], "length")),
        (f'{HALF}is",', Answer(None, "", [("weather", '{"city":"Paris"}')], "length")),
        ('Hm. <tool_call>\n{"name": "clock", "arguments": {}}', Answer("Hm.", "", [NOON], "length")),
        (f'{CALL}<tool_call>\n{{"name": "clo', Answer('<tool_call>\n{"name": "clo', "", [PARIS], "length")),
        (CALL, Answer(None, "", [PARIS], "length")),
    ],
)
async def test_a_call_cut_off_by_the_budget_is_repaired_or_shown_as_it_is(said: str, expected: Answer) -> None:
    server = house()
    server.says(*halves(said)[len(said) // 2], finish="length")
    assert await both(server, tools=OFFERED) == [expected]


async def test_a_stop_string_inside_a_call_ends_the_answer_with_what_there_is() -> None:
    server = house()
    server.says(f'{CALL}\n<tool_call>\n{{"name": "clock"', ', "arguments": {"x": "STOP"}}', finish="length")
    left = '<tool_call>\n{"name": "clock", "arguments": {"x": "'
    assert await both(server, tools=OFFERED, stop="STOP") == [Answer(left, "", [PARIS], "tool_calls")]


async def test_a_call_of_100_kb_arrives_whole_with_heartbeats_while_it_is_held_back() -> None:
    server = house()
    city = "x" * 100_000
    tokens = server.context.tokenizer.encode(hermes("weather", city=city))

    def script(submit: Submit) -> Iterable[Step]:
        for start in range(0, len(tokens), 10_000):
            yield Delta(submit.request_id, tuple(tokens[start : start + 10_000]))
            server.clock.advance(HEARTBEAT_S)
        yield Delta(submit.request_id, (END,), finish="stop")

    server.generation.script = script
    frames = (await post(server, stream=True, tools=OFFERED)).text.split("\n\n")
    assert [frame for frame in frames if not frame.startswith("data: ")] == [": keep-alive"] * 9 + [""]
    assert [frame.startswith(":") for frame in frames[:11]] == [False] + [True] * 9 + [False]
    call = json.loads(frames[10].removeprefix("data: "))["choices"][0]["delta"]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"city": city}


async def test_heartbeats_come_only_after_a_silence_and_only_while_a_call_is_held_back() -> None:
    server = house()

    def script(submit: Submit) -> Iterable[Step]:
        for seconds, text in ((60.0, ""), (0.0, "a"), (4.9, "<tool_call>"), (0.2, "{"), (4.9, "x"), (0.1, "y")):
            server.clock.advance(seconds)
            yield Delta(submit.request_id, tuple(server.context.tokenizer.encode(text)))
        yield Delta(submit.request_id, (END,), finish="stop")

    server.generation.script = script
    body = (await post(server, stream=True, tools=OFFERED)).text
    kinds = ["beat" if frame == ": keep-alive" else "data" for frame in body.split("\n\n")[:-2]]
    assert kinds == ["data", "data", "beat", "beat", "data", "data"]


async def test_a_format_from_the_settings_wins_over_the_template() -> None:
    server = house(generation={"tool_format": "kimi"})
    markup = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.clock:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>"
    )
    server.says(markup)
    assert await both(server, tools=OFFERED) == [Answer(None, "", [NOON], "tool_calls")]
    server.says(CALL)
    assert await both(server, tools=OFFERED) == [Answer(CALL, "", [], "stop")]


async def test_special_tokens_of_the_markup_are_read_and_only_where_tools_are() -> None:
    server = build(tokenizer=byte_tokenizer(TOOLS, ("<tool_call>", "</tool_call>")))
    server.says(CALL)
    assert await both(server, tools=OFFERED) == [Answer(None, "", [PARIS], "tool_calls")]
    inside = CALL.removeprefix("<tool_call>").removesuffix("</tool_call>")
    assert await both(server) == [Answer(inside, "", [], "stop")]


async def test_an_error_while_a_call_is_held_back_is_the_last_event() -> None:
    server = house()
    half = tuple(server.context.tokenizer.encode(CALL[:30]))
    server.generation.script = lambda submit: [Delta(submit.request_id, half), RuntimeError("x")]
    body = (await post(server, stream=True, tools=OFFERED)).text
    first, last, end = body.split("\n\n")
    assert json.loads(first.removeprefix("data: "))["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert (last, end) == ('data: {"error":{"message":"internal server error"}}', "")


async def test_a_complete_grammar_ends_a_call_like_an_end_token() -> None:
    server = house()
    server.says(CALL, finish="complete")
    assert await both(server, tools=OFFERED) == [Answer(None, "", [PARIS], "tool_calls")]
    assert events((await post(server, stream=True, tools=OFFERED)).text)[-1]["usage"]["completion_tokens"] == len(
        CALL.encode()
    )
