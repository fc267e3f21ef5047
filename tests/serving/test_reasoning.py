"""Thinking of every family, opened by the model or by its prompt: told apart, streamed, with calls and constraints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.company import run_company
from tests.support.markup import FORMS, Call, Form
from tests.support.said import Said, ask, hear

THOUGHT = "Hm: {a} < b?\n\nYes & no 🌧"
PROSE = "It rains."
CITY: dict[str, object] = {"city": "Zürich"}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
CALL: Call = ("get_weather", CITY)
JSON = json.dumps(CITY, ensure_ascii=False)
FORMATTED: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
OPENED: Any = {"chat_template_kwargs": {"enable_thinking": True}}


@dataclass(frozen=True)
class Mind:
    """One way of thinking, in a model that can call tools too."""

    label: str
    """Names it in the tests."""
    opening: str
    """Begins a block; where a request asks for thinking, the prompt ends with it."""
    ending: str
    """Ends it."""
    gap: str
    """Stands between a block and what follows."""
    form: Form
    """How calls are written."""

    def think(self, text: str, then: str) -> str:
        return f"{self.opening}{text}{self.ending}{self.gap}{then}"

    def checkpoint(self, folder: Path) -> Path:
        opening = "{% if enable_thinking is defined and enable_thinking %}OPENING{% endif %}"
        return self.form.checkpoint(folder, opening.replace("OPENING", self.opening.replace("\n", "{{ '\\n' }}")))


def _mind(label: str, opening: str, ending: str, gap: str, form: str, *special: str) -> Mind:
    (calls,) = [known for known in FORMS if known.label == form]
    sign = f"{opening.strip()}{ending.strip()}"
    return Mind(
        label,
        opening,
        ending,
        gap,
        replace(calls, sign=(sign + calls.sign[0], calls.sign[1]), special=(*calls.special, *special)),
    )


MINDS = [
    _mind("think", "<think>\n", "\n</think>", "\n\n", "hermes", "<think>", "</think>"),
    _mind("mistral", "[THINK]", "[/THINK]", "", "mistral_named", "[THINK]", "[/THINK]"),
    _mind("gemma4", "<|channel>thought\n", "<channel|>", "", "gemma4", "<|channel>", "<channel|>"),
    _mind("harmony", "<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant", "harmony"),
]


def scenes(mind: Mind) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name -> script and options."""
    prose, call = mind.form.write(PROSE, []), mind.form.write(PROSE, [CALL])
    bare = mind.form.write("", [CALL]).strip()
    harmony = mind.label == "harmony"
    # A grammar begins directly behind the block; harmony's is part of it, and names the channel.
    tight = mind if harmony else replace(mind, gap="")
    answer = "<|channel|>final<|message|>" if harmony else ""
    # Harmony's prompts never open a block; Gemma's opening is no token, so a constraint does not wait for the model's.
    asked: Any = {} if harmony else OPENED
    own: Any = OPENED if mind.label == "gemma4" else {}
    return {
        "own": (mind.think(THOUGHT, prose), {}),
        "opened": (mind.think(THOUGHT, prose), {"extra_body": OPENED}),
        "none": (prose, {}),
        "endless": (mind.opening + THOUGHT, {}),
        "own call": (mind.think(THOUGHT, call), {"tools": TOOLS}),
        "opened call": (mind.think(THOUGHT, call), {"tools": TOOLS, "extra_body": OPENED}),
        "formatted": (tight.think(THOUGHT, answer + JSON), {"response_format": FORMATTED, "extra_body": asked}),
        "own formatted": (tight.think(THOUGHT, answer + JSON), {"response_format": FORMATTED, "extra_body": own}),
        "chosen": (tight.think(THOUGHT, answer + "maybe"), {"extra_body": {**asked, "guided_choice": ["yes", "no"]}}),
        "required": (tight.think(THOUGHT, bare), {"tools": TOOLS, "tool_choice": "required", "extra_body": asked}),
        "either": (
            tight.think(THOUGHT, answer + JSON),
            {"tools": TOOLS, "response_format": FORMATTED, "extra_body": asked},
        ),
    }


@dataclass(frozen=True)
class Answers:
    """What one mind said in all scenes, which were played at once."""

    whole: Mapping[str, Said]
    streamed: Mapping[str, Said]


@pytest.fixture(scope="module", params=MINDS, ids=lambda mind: mind.label)
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    mind: Mind = request.param
    path, script = mind.checkpoint(tmp_path_factory.mktemp("minds") / mind.label), scenes(mind)
    with (
        run_company({"model": str(path), "generation": {"trust_model_code": True, "max_tokens": 400}}) as company,
        company.client() as client,
        ThreadPoolExecutor(2 * len(script)) as pool,
    ):
        whole = {name: pool.submit(ask, client, *scene) for name, scene in script.items()}
        streamed = {name: pool.submit(hear, client, *scene) for name, scene in script.items()}
        return Answers(
            {name: answer.result() for name, answer in whole.items()},
            {name: answer.result() for name, answer in streamed.items()},
        )


@pytest.mark.parametrize("scene", ["own", "opened"])
def test_thinking_is_told_apart_whoever_opened_the_block(answers: Answers, scene: str) -> None:
    said = answers.whole[scene]
    assert (said.reasoning, said.content, said.finish) == (THOUGHT, PROSE, "stop")


def test_a_stream_says_what_the_whole_answer_does(answers: Answers) -> None:
    assert answers.streamed == answers.whole


@pytest.mark.parametrize("scene", ["own", "opened"])
def test_thinking_is_streamed_as_it_comes(answers: Answers, scene: str) -> None:
    pieces = answers.streamed[scene].pieces
    assert "".join(pieces) == THOUGHT + PROSE
    assert len(pieces) > 20


def test_who_does_not_think_answers_at_once(answers: Answers) -> None:
    said = answers.whole["none"]
    assert (said.reasoning, said.content, said.finish) == ("", PROSE, "stop")


def test_a_block_without_an_end_is_thinking(answers: Answers) -> None:
    said = answers.whole["endless"]
    assert (said.reasoning, said.content, said.finish) == (THOUGHT, "", "stop")


@pytest.mark.parametrize("scene", ["own call", "opened call"])
def test_a_call_is_found_behind_the_thinking(answers: Answers, scene: str) -> None:
    said = answers.whole[scene]
    assert (said.reasoning, said.content, said.calls, said.finish) == (THOUGHT, PROSE, [CALL], "tool_calls")


@pytest.mark.parametrize("scene", ["formatted", "own formatted"])
def test_a_response_format_counts_from_the_end_of_the_block(answers: Answers, scene: str) -> None:
    said = answers.whole[scene]
    assert (said.reasoning, said.content, said.finish) == (THOUGHT, JSON, "stop")


def test_a_choice_is_enforced_behind_the_block_only(answers: Answers) -> None:
    said = answers.whole["chosen"]
    assert (said.reasoning, said.finish) == (THOUGHT, "stop")
    assert said.content in ("yes", "no")


def test_a_required_call_comes_behind_the_block(answers: Answers) -> None:
    said = answers.whole["required"]
    assert (said.reasoning, said.content, said.calls, said.finish) == (THOUGHT, "", [CALL], "tool_calls")


def test_with_tools_and_a_format_either_may_follow(answers: Answers) -> None:
    said = answers.whole["either"]
    assert (said.reasoning, said.content, said.calls, said.finish) == (THOUGHT, JSON, [], "stop")
