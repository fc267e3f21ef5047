"""The exact output of every family of tool calls, through the whole server and the official SDK, a token a delta."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from tokenizers import Tokenizer

from tests.support.company import run_company
from tests.support.markup import FORMS, Call, Form
from tests.support.said import Said, ask, hear, helped
from tests.support.server import run_server

PROSE = "Let me see – 1 < 2, {so} [far]."
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
NOTE = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "tags": {"type": "array"}, "more": {"type": "object"}},
}
TOOLS: Any = [
    {"type": "function", "function": {"name": "get_weather", "description": "Forecast.", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "take_note", "parameters": NOTE}},
]
REQUIRED: Any = {"type": "function", "function": {"name": "get_weather"}}
STRANGER: Call = ("launch_rocket", {"at": "dawn"})
FORECAST: Call = ("get_weather", {"city": "Zürich 🌧 日", "days": 3})


@dataclass(frozen=True)
class Answers:
    """What one family's model said in all scenes, which were played at once."""

    form: Form
    scripts: Mapping[str, str]
    """Name of the scene -> what the model says."""
    whole: Mapping[str, Said]
    streamed: Mapping[str, Said]
    built: Said
    """The scene of several calls, as the SDK's helper for streams puts it together."""
    required: Said
    """A call that was asked for by name."""


def note(form: Form) -> Call:
    """Arguments with everything that may go wrong."""
    text = f'"quoted" {form.closing} and\n\tan end\\n &amp; 🌧'
    return "take_note", {"text": text, "tags": ["a", {"deep": [None, True, 1.5]}], "more": {"k": {"l": "m"}}}


def scenes(form: Form, count: Callable[[str], int]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name -> script and options. `count` says how many tokens a text has."""
    both = form.write(PROSE, [FORECAST, note(form)])
    middle = both[: both.index("quoted") + 3]
    return {
        "several": (both, {"tools": TOOLS}),
        "only": (form.write("", [FORECAST, note(form)]), {"tools": TOOLS}),
        "one": (both, {"tools": TOOLS, "parallel_tool_calls": False}),
        "unknown": (form.write(PROSE, [STRANGER]), {"tools": TOOLS}),
        "cut": (both, {"tools": TOOLS, "max_tokens": count(middle)}),
        "prose": (PROSE, {"tools": TOOLS}),
        "untooled": (form.write(PROSE, [FORECAST]), {}),
    }


def require(client: openai.OpenAI, form: Form) -> Said:
    """A call that the request asks for by name."""
    return ask(client, form.write("", [FORECAST]).strip(), {"tools": TOOLS, "tool_choice": REQUIRED})


def play(form: Form, folder: Path) -> Answers:
    """All scenes at once, each whole and streamed."""
    path = form.checkpoint(folder / form.label)
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    script = scenes(form, lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids))
    settings = {"trust_model_code": True}
    with (
        run_company({"model": str(path), "generation": settings}) as company,
        company.client() as client,
        ThreadPoolExecutor(2 * len(script) + 2) as pool,
    ):
        required = pool.submit(require, client, form)
        built = pool.submit(helped, client, *script["several"])
        whole = {name: pool.submit(ask, client, *scene) for name, scene in script.items()}
        streamed = {name: pool.submit(hear, client, *scene) for name, scene in script.items()}
        return Answers(
            form,
            {name: text for name, (text, _) in script.items()},
            {name: answer.result() for name, answer in whole.items()},
            {name: answer.result() for name, answer in streamed.items()},
            built.result(),
            required.result(),
        )


@pytest.fixture(scope="module", params=FORMS, ids=lambda form: form.label)
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return play(request.param, tmp_path_factory.mktemp("scripted"))


def test_prose_and_several_calls_are_told_apart(answers: Answers) -> None:
    tokens = answers.whole["several"].tokens
    assert answers.whole["several"] == Said(PROSE, [FORECAST, note(answers.form)], "tool_calls", tokens)


def test_calls_need_no_prose(answers: Answers) -> None:
    tokens = answers.whole["only"].tokens
    assert answers.whole["only"] == Said("", [FORECAST, note(answers.form)], "tool_calls", tokens)


def test_a_stream_says_what_the_whole_answer_does(answers: Answers) -> None:
    assert answers.streamed == answers.whole


def test_prose_is_streamed_as_it_comes_and_then_call_by_call(answers: Answers) -> None:
    pieces = answers.streamed["several"].pieces
    assert pieces[-2:] == ["get_weather", "take_note"]
    assert "".join(pieces[:-2]) == PROSE
    assert len(pieces) > 20


def test_the_helper_of_the_sdk_finds_the_same_calls(answers: Answers) -> None:
    assert answers.built == answers.whole["several"]


def test_without_parallel_calls_only_the_first_one_comes(answers: Answers) -> None:
    said = answers.whole["one"]
    assert (said.content, said.calls, said.finish) == (PROSE, [FORECAST], "tool_calls")


def test_a_call_of_an_unknown_function_is_content(answers: Answers) -> None:
    said = answers.whole["unknown"]
    # Harmony has no text for a header.
    text = PROSE + '\n\n{"at": "dawn"}' if answers.form.label == "harmony" else answers.scripts["unknown"]
    assert (said.content, said.calls, said.finish) == (text, [], "stop")


def test_what_max_tokens_cuts_off_leaves_the_calls_before_it(answers: Answers) -> None:
    said = answers.whole["cut"]
    assert (said.calls, said.finish) == ([FORECAST], "length")
    assert said.content.startswith(PROSE)


def test_prose_with_brackets_is_prose(answers: Answers) -> None:
    said = answers.whole["prose"]
    assert (said.content, said.calls, said.finish) == (PROSE, [], "stop")


def test_without_tools_nothing_is_a_call(answers: Answers) -> None:
    said = answers.whole["untooled"]
    text = answers.scripts["untooled"]
    for token in answers.form.special:
        text = text.replace(token, "")
    if answers.form.label == "harmony":
        text = PROSE + "\n\n" + json.dumps(FORECAST[1], ensure_ascii=False)
    assert (said.content, said.calls, said.finish) == (text, [], "stop")


def test_a_required_call_is_written_as_the_family_writes_it(answers: Answers) -> None:
    required = answers.required
    assert (required.content, required.calls, required.finish) == ("", [FORECAST], "tool_calls")


def test_on_ray_a_call_is_the_same(tmp_path: Path) -> None:
    (form,) = [known for known in FORMS if known.label == "hermes"]
    path = form.checkpoint(tmp_path / "hermes")
    script = form.write(PROSE, [FORECAST, note(form)])
    settings = {"model": str(path), "generation": {"trust_model_code": True}}
    with (
        run_server(settings) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
    ):
        whole = ask(client, script, {"tools": TOOLS})
        streamed = hear(client, script, {"tools": TOOLS})
    assert whole == Said(PROSE, [FORECAST, note(form)], "tool_calls", whole.tokens)
    assert streamed == whole
