"""Boundaries of prompts, with templates that rewrite the past."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.agreement import agreeing, continuations, whole_tokens
from routes.schema.messages import Message
from routes.tokenizer import ChatTokenizer
from tests.routes import templates
from tests.routes.harness import TEMPLATE, build, byte_tokenizer, chat, connect
from tests.routes.scripted_generation import description

FORMS = {
    "plain": TEMPLATE,
    "thinking": templates.THINK,
    "opened": templates.OPENED,
    "stripping": templates.STRIPPING,
}
THOUGHT = "<think>\nLet me see.\n</think>\n\n"


def message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


SYSTEM, ASKED = message("system", "Be kind."), message("user", "How are you?")
OTHER = message("user", "And who are you?")


def tokenizer(form: str) -> ChatTokenizer:
    return byte_tokenizer(FORMS[form], special=("<think>", "</think>"))


def cuts(form: str, messages: Sequence[Message]) -> tuple[list[int], tuple[int, ...]]:
    """A prompt and the lengths at which a model that keeps states can be resumed: its boundaries and its end."""
    rendered = tokenizer(form).prepare(messages, {}, boundaries=True)
    assert rendered.tokens == tokenizer(form).prepare(messages, {}).tokens
    return rendered.tokens, (*rendered.boundaries, len(rendered.tokens) - 1)


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def computed_anew(form: str, before: Sequence[Message], after: Sequence[Message]) -> int:
    """Tokens of the second prompt that the first one had too, and that are computed again all the same."""
    first, lengths = cuts(form, before)
    common = shared(first, cuts(form, after)[0])
    return common - max((length for length in lengths if length <= common), default=0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("thought", ["", THOUGHT])
def test_the_next_turn_finds_all_that_the_template_left_of_this_one(form: str, thought: str) -> None:
    before = [SYSTEM, ASKED]
    after = [*before, message("assistant", f"{thought}Well."), OTHER]
    assert computed_anew(form, before, after) <= 1


@pytest.mark.parametrize("form", FORMS)
def test_the_turn_after_a_call_finds_it_too(form: str) -> None:
    before = [SYSTEM, ASKED]
    result: Message = {"role": "tool", "content": "17 degrees", "tool_call_id": "call_1"}
    called = [*before, message("assistant", f"{THOUGHT}Let me ask."), result]
    assert computed_anew(form, before, called) <= 1
    over = [*called, message("assistant", f"{THOUGHT}Warm."), OTHER]
    assert computed_anew(form, called, over) <= 1


@pytest.mark.parametrize("form", FORMS)
def test_another_conversation_finds_the_system_message(form: str) -> None:
    assert computed_anew(form, [SYSTEM, ASKED], [SYSTEM, OTHER]) <= 1
    assert computed_anew(form, [SYSTEM, ASKED, message("assistant", "Well."), ASKED], [SYSTEM, OTHER]) <= 1


def test_a_template_that_strips_thinking_has_a_boundary_before_the_beginning_of_the_answer() -> None:
    form = tokenizer("stripping")
    rendered = form.prepare([ASKED], {}, boundaries=True)
    kept = form.decode(rendered.tokens[: rendered.boundaries[0]])
    assert kept == "<|start|>user:How are you?<|end|><|start|>assistant"
    assert rendered.tail.endswith("assistant:<think>\n")


def test_a_template_that_refuses_a_continuation_has_fewer_boundaries() -> None:
    template = "{% if messages | length > 1 %}{{ raise_exception('no') }}{% endif %}" + TEMPLATE
    rendered = byte_tokenizer(template).prepare([ASKED], {}, boundaries=True)
    assert rendered.boundaries == ()


def test_boundaries_follow_the_reading_of_the_messages_that_the_template_took() -> None:
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + TEMPLATE
    rendered = byte_tokenizer(template).prepare([SYSTEM, ASKED], {}, boundaries=True)
    assert rendered.boundaries


def test_conversations_are_compared_with_how_they_could_go_on() -> None:
    roles = [[one["role"] for one in other] for other in continuations([SYSTEM, ASKED], tools=False)]
    assert roles == [
        ["system", "user", "assistant"],
        ["system", "user", "assistant", "user"],
        ["system", "user"],
    ]
    assert len(list(continuations([ASKED], tools=False))) == 2
    assert [one["role"] for one in list(continuations([ASKED], tools=True))[2]] == ["user"]


@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_texts_agree_up_to_the_first_difference(one: str, other: str) -> None:
    assert agreeing(one, other) == shared([ord(c) for c in one], [ord(c) for c in other])


def test_a_token_that_could_have_been_another_one_is_left_out() -> None:
    spans = [(0, 3), (3, 4), (4, 9)]
    special = {7}.__contains__
    assert whole_tokens([1, 2, 3], spans, 4, special) == 1
    assert whole_tokens([1, 7, 3], spans, 4, special) == 2
    assert whole_tokens([1, 7, 3], spans, 8, special) == 2
    assert whole_tokens([1, 2, 3], spans, 2, special) == 0


@pytest.mark.parametrize(("settings", "trimmable"), [({}, True), ({"prompt_cache": {"max_bytes": 0}}, False)])
async def test_boundaries_are_not_looked_for_where_nobody_keeps_them(
    settings: dict[str, object], trimmable: bool
) -> None:
    house = build(settings)
    house.generation.described = description(trimmable=trimmable)
    house.says("x")
    async with connect(house) as client:
        await client.post("/v1/chat/completions", json=chat())
    assert house.generation.submitted[0].boundaries == ()


async def test_the_scheduler_hears_of_boundaries_where_states_are_kept() -> None:
    house = build()
    house.generation.described = description(trimmable=False)
    house.says("x")
    async with connect(house) as client:
        await client.post("/v1/chat/completions", json=chat())
    submitted = house.generation.submitted[0]
    assert submitted.boundaries
    assert all(0 < length < len(submitted.prompt) // 4 for length in submitted.boundaries)
