"""Families of models through Anthropic's SDK: calls, and thinking that ends where its budget does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.serving.test_reasoning import MINDS, PROSE, SCHEMA, THOUGHT, Mind
from tests.support.company import run_company
from tests.support.heard import ask, client_of, hear
from tests.support.markup import Call
from tests.support.said import Said

CALLS: list[Call] = [("get_weather", {"city": "Zürich 🌧"}), ("get_weather", {"city": 'a "b" </tool_call>'})]
TOOLS: Any = [
    {"name": "get_weather", "description": "Forecast.", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}},
    {"type": "web_search_20250305", "name": "web_search"},
]
BUDGET = 9
"""Less than the thought has, in tokens, of which there is one a byte."""
PLENTY = 400
BOUND: Any = {"type": "enabled", "budget_tokens": BUDGET}


def scenes(mind: Mind) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name -> script and options."""
    several = mind.form.write(PROSE, CALLS)
    harmony = mind.label == "harmony"
    # Harmony's prompts never open a block; where another one's does, its model may repeat the mark.
    opened = mind.think(THOUGHT, mind.form.write(PROSE, []))
    tight = mind.opening + THOUGHT + mind.ending
    answer = '<|start|>assistant<|channel|>final<|message|>{"city": "Rom"}' if harmony else '{"city": "Rom"}'
    formatted = {"format": {"type": "json_schema", "schema": SCHEMA}}
    return {
        "several": (several, {"tools": TOOLS}),
        "one": (several, {"tools": TOOLS, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
        "none": (PROSE, {"tools": TOOLS, "tool_choice": {"type": "none"}}),
        "any": (mind.form.write("", CALLS[:1]).strip(), {"tools": TOOLS, "tool_choice": {"type": "any"}}),
        "named": (
            mind.form.write("", CALLS[:1]).strip(),
            {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "get_weather"}},
        ),
        "thinking": (opened, {"thinking": {"type": "adaptive"}}),
        "in time": (opened, {"thinking": {"type": "enabled", "budget_tokens": PLENTY}}),
        "bound": (opened, {"thinking": BOUND}),
        "bound, formatted": (tight + answer, {"thinking": BOUND, "output_config": formatted}),
        "own": (opened, {}),
        "stopped": (PROSE, {"stop_sequences": ["rains"]}),
        "cut": (PROSE, {"max_tokens": 4}),
    }


@dataclass(frozen=True)
class Answers:
    """What one mind said in all scenes, which were played at once."""

    mind: Mind
    whole: Mapping[str, Said]
    streamed: Mapping[str, Said]


@pytest.fixture(scope="module", params=MINDS, ids=lambda mind: mind.label)
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    mind: Mind = request.param
    folder, script = tmp_path_factory.mktemp("minds") / mind.label, scenes(mind)
    path = mind.form.checkpoint(folder) if mind.label == "harmony" else mind.checkpoint(folder)
    with (
        run_company({"model": str(path), "generation": {"trust_model_code": True}}) as company,
        client_of(company.url) as client,
        ThreadPoolExecutor(2 * len(script)) as pool,
    ):
        whole = {name: pool.submit(ask, client, *scene) for name, scene in script.items()}
        streamed = {name: pool.submit(hear, client, *scene) for name, scene in script.items()}
        return Answers(
            mind,
            {name: answer.result() for name, answer in whole.items()},
            {name: answer.result() for name, answer in streamed.items()},
        )


def test_a_stream_says_what_the_whole_message_does(answers: Answers) -> None:
    for name, said in answers.whole.items():
        # Where an answer ends with its one call, tokens that came in the same step count too, and there may be one.
        tokens = said.tokens if name == "one" else answers.streamed[name].tokens
        assert replace(answers.streamed[name], tokens=tokens) == said, name


def test_prose_and_calls_are_blocks_of_their_own(answers: Answers) -> None:
    said = answers.whole["several"]
    assert (said.content, said.calls, said.finish) == (PROSE, CALLS, "tool_use")
    assert answers.streamed["several"].pieces[-2:] == ["get_weather", "get_weather"]


def test_without_parallel_calls_only_the_first_one_comes(answers: Answers) -> None:
    said = answers.whole["one"]
    assert (said.content, said.calls, said.finish) == (PROSE, CALLS[:1], "tool_use")


def test_without_a_choice_of_tools_there_are_none(answers: Answers) -> None:
    said = answers.whole["none"]
    assert (said.content, said.calls, said.finish) == (PROSE, [], "end_turn")


@pytest.mark.parametrize("scene", ["any", "named"])
def test_a_required_call_is_made(answers: Answers, scene: str) -> None:
    said = answers.whole[scene]
    assert (said.content, said.calls, said.finish) == ("", CALLS[:1], "tool_use")


@pytest.mark.parametrize("scene", ["thinking", "in time", "own"])
def test_thinking_is_a_block_and_has_the_time_it_is_given(answers: Answers, scene: str) -> None:
    said = answers.whole[scene]
    assert (said.reasoning, said.content, said.finish) == (THOUGHT, PROSE, "end_turn")


def test_a_spent_budget_ends_the_thinking_and_the_answer_begins(answers: Answers) -> None:
    said = answers.whole["bound"]
    assert said.reasoning.encode() == THOUGHT.encode()[:BUDGET]
    assert said.content.endswith(PROSE)
    assert said.finish == "end_turn"


def test_a_form_is_kept_behind_a_spent_budget(answers: Answers) -> None:
    said = answers.whole["bound, formatted"]
    assert said.reasoning.encode() == THOUGHT.encode()[:BUDGET]
    # Much of what the script says there is no JSON, and other tokens take its place.
    assert list(json.loads(said.content)) == ["city"]


def test_why_an_answer_ended_is_told(answers: Answers) -> None:
    assert (answers.whole["stopped"].content, answers.whole["stopped"].finish) == ("It ", "stop_sequence")
    assert (answers.whole["cut"].content, answers.whole["cut"].finish) == ("It r", "max_tokens")
