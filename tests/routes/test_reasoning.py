"""Thinking through the chat route."""

from __future__ import annotations

from typing import Any

import pytest

from routes.sampling import NO_THINK_TEMPERATURE
from tests.routes.harness import House, build, byte_tokenizer, unpack
from tests.routes.reading import Answer, both, deltas, hermes, post, streamed, tool, whole
from tests.routes.templates import EFFORT, HARMONY, HARMONY_TOKENS, OPENED, THINK

CLOCK = tool("clock")
NOON = ("clock", "{}")


def house(template: str = THINK, *special: str, **settings: Any) -> House:
    return build(settings or None, tokenizer=byte_tokenizer(template, special))


def prompts(server: House) -> list[str]:
    return [server.context.tokenizer.decode(unpack(row.prompt)) for row in server.generation.submitted]


async def test_a_think_block_is_reasoning_and_what_follows_is_content() -> None:
    server = house()
    server.says("<think>\nHmm.\n</think>\n\nYes.")
    assert await both(server) == [Answer("Yes.", "Hmm.", [], "stop")]


async def test_without_thinking_there_is_no_reasoning_field() -> None:
    server = house()
    server.says("Yes.")
    (choice,) = (await post(server)).json()["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Yes."}


async def test_reasoning_streams_live_and_before_content() -> None:
    server = house()
    server.says("<th", "ink>", "\nOne", " two", "\n</thi", "nk>\n", "\nYes", ".")
    assert await deltas(server) == [
        {"reasoning": "One"},
        {"reasoning": " two"},
        {"content": "Yes"},
        {"content": "."},
    ]


@pytest.mark.parametrize(
    ("template", "special", "start", "end"),
    [
        (THINK, (), "<think>", "</think>"),
        (THINK, ("<think>", "</think>"), "<think>", "</think>"),
        (THINK.replace("<think>", "[THINK]").replace("</think>", "[/THINK]"), (), "[THINK]", "[/THINK]"),
        (
            THINK.replace("<think>", "<seed:think>").replace("</think>", "</seed:think>"),
            (),
            "<seed:think>",
            "</seed:think>",
        ),
        (
            THINK.replace("<think>", "<|channel>thought").replace("</think>", "<channel|>"),
            ("<|channel>", "<channel|>"),
            "<|channel>thought",
            "<channel|>",
        ),
    ],
    ids=["think", "special think", "mistral", "seed", "gemma4"],
)
async def test_every_family_of_tags_is_split_wherever_it_is_cut(
    template: str, special: tuple[str, ...], start: str, end: str
) -> None:
    server = house(template, *special)
    tokens = server.context.tokenizer.encode(f"{start}\nWhy é?\n{end}\n\nSo.")
    for at in range(len(tokens) + 1):
        server.gives(tokens[:at], tokens[at:])
        assert await streamed(server) == [Answer("So.", "Why é?", [], "stop")], at
    server.gives(*[[token] for token in tokens])
    assert await both(server) == [Answer("So.", "Why é?", [], "stop")]


async def test_a_block_that_the_prompt_opened_is_reasoning_from_the_first_word() -> None:
    server = house(OPENED)
    server.says("I wonder", ".</think>\n\nYes.")
    assert await both(server) == [Answer("Yes.", "I wonder.", [], "stop")]
    assert prompts(server)[0].endswith("assistant:<think>\n")
    assert await both(server, chat_template_kwargs={"enable_thinking": False}) == [
        Answer("I wonder.</think>\n\nYes.", "", [], "stop")
    ]


async def test_a_users_words_open_no_block() -> None:
    server = house()
    server.says("It is a tag.")
    assert await whole(server, text="What is <think>") == [Answer("It is a tag.", "", [], "stop")]


async def test_an_answer_cut_off_while_thinking_has_reasoning_and_empty_content() -> None:
    server = house(OPENED)
    server.says("I won", finish="length")
    assert await both(server) == [Answer("", "I won", [], "length")]


async def test_a_stop_string_ends_the_thinking_too() -> None:
    server = house(OPENED)
    server.says("one ST", "OP two</think>three")
    assert await both(server, stop=["STOP"]) == [Answer("", "one ", [], "stop")]


async def test_calls_are_looked_for_after_the_thinking_only() -> None:
    server = house(OPENED)
    thought = f"Shall I? {hermes('clock', draft=1)}"
    server.says(thought, "\n</think>\n\nNow: ", hermes("clock"))
    assert await both(server, tools=[CLOCK]) == [Answer("Now:", thought, [NOON], "tool_calls")]


async def test_harmony_has_reasoning_content_and_calls() -> None:
    server = house(HARMONY, *HARMONY_TOKENS)
    text = (
        "<|channel|>analysis<|message|>Hmm.<|end|><|start|>assistant<|channel|>commentary to=functions.clock "
        "<|constrain|>json<|message|>{}<|call|>"
    )
    tokens = server.context.tokenizer.encode(text)
    for at in range(len(tokens) + 1):
        server.gives(tokens[:at], tokens[at:])
        assert await streamed(server, tools=[CLOCK]) == [Answer(None, "Hmm.", [NOON], "tool_calls")]
    assert await whole(server, tools=[CLOCK]) == [Answer(None, "Hmm.", [NOON], "tool_calls")]


async def test_harmonys_last_word_is_content() -> None:
    server = house(HARMONY, *HARMONY_TOKENS)
    server.says("<|channel|>analysis<|message|>Hmm.<|end|>", "<|start|>assistant<|channel|>final<|message|>Yes.")
    assert await both(server) == [Answer("Yes.", "Hmm.", [], "stop")]


async def test_the_settings_may_switch_the_split_off() -> None:
    server = house(generation={"reasoning_format": "none"})
    server.says("<think>a</think>b")
    assert await both(server) == [Answer("<think>a</think>b", "", [], "stop")]


async def test_a_raw_continuation_is_not_split() -> None:
    server = house(OPENED)
    server.says("<think>a</think>b")
    response = await post(server, "/v1/completions")
    assert response.json()["choices"][0]["text"] == "<think>a</think>b"


@pytest.mark.parametrize(
    ("effort", "depth", "thinking"),
    [
        (None, "unset", "unset"),
        ("none", "unset", "False"),
        ("minimal", "low", "True"),
        ("low", "low", "True"),
        ("medium", "medium", "True"),
        ("high", "high", "True"),
        ("xhigh", "high", "True"),
    ],
)
async def test_the_effort_gates_thinking_and_reaches_templates_that_read_it(
    effort: str | None, depth: str, thinking: str
) -> None:
    server = house(EFFORT)
    server.says("x")
    await post(server, reasoning_effort=effort)
    assert prompts(server)[0].endswith(f"[effort={depth} thinking={thinking}]</think>")


@pytest.mark.parametrize("effort", ["none", "high"])
@pytest.mark.parametrize("explicit", [True, False])
async def test_an_explicit_switch_wins_over_the_effort(effort: str, explicit: bool) -> None:
    server = house(EFFORT)
    server.says("x")
    await post(server, reasoning_effort=effort, chat_template_kwargs={"enable_thinking": explicit})
    assert f"thinking={explicit}]" in prompts(server)[0]


async def test_a_switch_that_is_null_leaves_it_to_the_effort() -> None:
    server = house(EFFORT)
    server.says("x")
    await post(server, reasoning_effort="none", chat_template_kwargs={"enable_thinking": None})
    assert "thinking=False]" in prompts(server)[0]


@pytest.mark.parametrize("effort", ["", "max", "None", 1, True, ["low"]])
async def test_an_effort_nobody_knows_is_refused(effort: object) -> None:
    response = await post(house(EFFORT), reasoning_effort=effort)
    assert (response.status_code, response.json()["error"]) == (
        400,
        {
            "message": "reasoning_effort must be one of 'none', 'minimal', 'low', 'medium', 'high', 'xhigh'",
            "type": "invalid_request_error",
        },
    )


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"reasoning": "a"}, "(a)x"),
        ({"reasoning_content": "b"}, "(b)x"),
        ({"reasoning": "a", "reasoning_content": "b"}, "(b)x"),
        ({"reasoning": "a", "reasoning_content": ""}, "()x"),
        ({"reasoning": "a", "reasoning_content": None}, "(a)x"),
        ({"reasoning": None}, "x"),
        ({}, "x"),
    ],
)
async def test_history_has_its_thinking_under_either_name(fields: dict[str, object], shown: str) -> None:
    server = house()
    server.says("ok")
    await post(server, messages=[{"role": "assistant", "content": "x", **fields}, {"role": "user", "content": "y"}])
    assert prompts(server)[0].startswith(f"<|start|>assistant:{shown}<|end|>")


@pytest.mark.parametrize(
    ("fields", "settings", "expected"),
    [
        ({"reasoning_effort": "none"}, {"temperature": 1.0}, NO_THINK_TEMPERATURE),
        ({"chat_template_kwargs": {"enable_thinking": False}}, {"temperature": 1.0}, NO_THINK_TEMPERATURE),
        ({"reasoning_effort": "none"}, {"temperature": 0.2}, 0.2),
        ({"reasoning_effort": "none", "temperature": 1.0}, {"temperature": 0.2}, 1.0),
        ({"reasoning_effort": "none", "temperature": 0}, {"temperature": 1.0}, 0.0),
        ({"reasoning_effort": "high"}, {"temperature": 1.0}, 1.0),
        ({}, {"temperature": 1.0}, 1.0),
    ],
)
async def test_a_turn_without_thinking_is_sampled_at_0_7_at_most_unless_it_says_otherwise(
    fields: dict[str, Any], settings: dict[str, float], expected: float
) -> None:
    server = house(generation=settings)
    server.says("x")
    await post(server, **fields)
    assert server.row.sampling.temperature == expected


async def test_the_cap_holds_for_the_models_own_default_too_and_for_thinking_models_only() -> None:
    for template, expected in ((THINK, 0.7), (None, 1.0)):
        server = build(None, {"temperature": 1.0}, byte_tokenizer(template) if template else None)
        if template is None:
            server.says("x")
            await post(server, "/v1/completions", reasoning_effort="none")
        else:
            server.says("x")
            await post(server, reasoning_effort="none")
        assert server.row.sampling.temperature == expected
