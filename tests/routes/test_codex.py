"""Codex's turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.routes.harness import House, build, byte_tokenizer, connect, unpack
from tests.routes.reading import hermes
from tests.routes.responding import events
from tests.routes.templates import OPENED
from tests.support import codex


@pytest.fixture
def house() -> House:
    return build(tokenizer=byte_tokenizer(OPENED))


async def turn(house: House, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with connect(house) as client:
        response = await client.post("/v1/responses", json=body, headers={"session_id": "s-1", "originator": "cli"})
    assert response.status_code == 200, response.text
    return events(response.text)


def prompt(house: House) -> str:
    return house.context.tokenizer.decode(unpack(house.generation.submitted[-1].prompt))


async def test_a_first_turn_ends_in_calls_that_can_be_run(house: House) -> None:
    house.says(
        "Hm.</think>",
        hermes(codex.EXEC, cmd="ls"),
        hermes("update_plan", plan=[{"step": "look", "status": "pending"}]),
        hermes(codex.PATCH, input="*** Begin Patch\n*** End Patch"),
    )
    found = await turn(house, codex.body(codex.message("user", "Fix it.")))
    response = found[-1]["response"]
    assert found[-1]["type"] == "response.completed"
    assert [item["type"] for item in response["output"]] == [
        "reasoning",
        "function_call",
        "function_call",
        "custom_tool_call",
    ]
    assert json.loads(response["output"][1]["arguments"]) == {"cmd": "ls"}
    assert response["output"][3]["input"] == "*** Begin Patch\n*** End Patch"
    assert response["store"] is False
    assert [tool["name"] for tool in response["tools"]] == [codex.EXEC, "update_plan", codex.PATCH]
    assert house.row.session == "0199a213-81c0-7800-8aa1-bbab2a035a53"
    assert prompt(house).endswith(
        "<|start|>system:You are a coding agent.\n\n<permissions>You may read.</permissions><|end|>"
        "<|start|>user:<environment_context><cwd>/tmp</cwd></environment_context><|end|>"
        "<|start|>user:Fix it.<|end|><|start|>assistant:<think>\n"
    )


async def test_a_later_turn_hands_back_items_of_every_kind(house: House) -> None:
    house.says("</think>", "Done.")
    found = await turn(house, codex.body(codex.message("user", "Fix it."), *codex.history()))
    assert found[-1]["type"] == "response.completed"
    assert prompt(house).partition("<|start|>user:Fix it.<|end|>")[2] == (
        "<|start|>assistant:I will look.<tool_call>exec_command cmd=ls</tool_call><|end|>"
        "<|start|>tool:a.txt<|end|>"
        "<|start|>assistant:<tool_call>apply_patch input=*** Begin</tool_call><|end|>"
        "<|start|>tool:Success.<|end|>"
        "<|start|>assistant:<tool_call>local_shell command=['cat', 'a.txt'] working_directory=/tmp</tool_call><|end|>"
        "<|start|>tool:old<|end|>"
        "<|start|>assistant:<think>\n"
    )


async def test_what_came_out_goes_back_in(house: House) -> None:
    house.says("Hm.</think>", "See.", hermes(codex.EXEC, cmd="ls"), hermes(codex.PATCH, input="x"))
    asked = codex.message("user", "Fix it.")
    output = (await turn(house, codex.body(asked)))[-1]["response"]["output"]
    results = [
        {"type": "function_call_output", "call_id": output[2]["call_id"], "output": "a.txt"},
        {"type": "custom_tool_call_output", "call_id": output[3]["call_id"], "output": "ok"},
    ]
    house.says("</think>Done.")
    await turn(house, codex.body(asked, *output, *results))
    assert prompt(house).partition("<|start|>user:Fix it.<|end|>")[2] == (
        "<|start|>assistant:See.<tool_call>exec_command cmd=ls</tool_call><tool_call>apply_patch input=x</tool_call>"
        "<|end|><|start|>tool:a.txt<|end|><|start|>tool:ok<|end|><|start|>assistant:<think>\n"
    )


async def test_an_output_schema_is_enforced(house: House) -> None:
    house.says("</think>{}", finish="complete")
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    form = {"type": "json_schema", "name": "codex_output_schema", "schema": schema, "strict": True}
    body = codex.body(codex.message("user", "x"), tools=[], text={"verbosity": "low", "format": form})
    await turn(house, body)
    assert house.row.constraint is not None
    assert house.row.constraint.kind == "json_schema"
