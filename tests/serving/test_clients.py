"""Client libraries that build on OpenAI's protocol, each in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import ROOT, Server

PYTHON = ROOT / ".venv-clients/bin/python"
READY = ROOT / ".venv-clients/.troupe"
SCRIPT = ROOT / "tests/support/foreign_clients.py"
PATIENCE_S = 240
ANSWER = "The capital of France is Paris."


def call(library: str, server: Server, home: Path) -> Any:
    """What the library got from the server."""
    if not READY.exists():
        pytest.fail(f"{PYTHON.parents[1]} is missing: `make test` makes it from requirements/clients.txt")
    # A home of its own, without settings or caches; litellm would fetch a list of prices.
    environment = {"PATH": os.defpath, "HOME": str(home), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(
        [str(PYTHON), str(SCRIPT), f"{server.url}/v1", library],
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_instructor_gets_a_validated_object(server: Server, tmp_path: Path) -> None:
    place = call("instructor", server, tmp_path)
    assert place["kind"] in ("city", "river")
    assert 0 <= place["size"] <= 99


def test_litellm_gets_an_answer_whole_and_streamed(server: Server, tmp_path: Path) -> None:
    got = call("litellm", server, tmp_path)
    assert got == {"whole": ANSWER, "streamed": ANSWER, "tokens": 45}


def test_litellm_speaks_the_responses_protocol(server: Server, tmp_path: Path) -> None:
    got = call("litellm_responses", server, tmp_path)
    assert got == {
        "whole": ANSWER,
        "streamed": ANSWER,
        "tokens": 45,
        "last": "response.completed",
        "continued": True,
    }


def test_litellm_speaks_messages(server: Server, tmp_path: Path) -> None:
    got = call("litellm_messages", server, tmp_path)
    assert got == {"whole": ANSWER, "streamed": ANSWER, "tokens": 45}


def test_langchain_gets_an_answer_and_a_call_by_messages(server: Server, tmp_path: Path) -> None:
    got = call("langchain_anthropic", server, tmp_path)
    assert got.pop("place") in ("city", "river")
    assert got == {"whole": ANSWER, "streamed": ANSWER, "tokens": 45, "streamed_tokens": 45}


def test_langchain_gets_answers_a_call_and_a_form_by_chat_and_responses(server: Server, tmp_path: Path) -> None:
    got = call("langchain_openai", server, tmp_path)
    assert {got.pop("called"), got.pop("formed")} <= {"city", "river"}
    assert got == {
        "whole": ANSWER,
        "streamed": ANSWER,
        "streamed_tokens": 45,
        "by_responses": ANSWER,
        "streamed_by_responses": ANSWER,
        "continued": True,
    }


def test_llm_gets_answers_and_a_form(server: Server, tmp_path: Path) -> None:
    got = call("llm", server, tmp_path)
    assert got.pop("formed") in ("city", "river")
    assert got == {"whole": ANSWER, "streamed": ANSWER, "tokens": 45, "continued": True}
