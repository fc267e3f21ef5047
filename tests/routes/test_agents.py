"""What agents and chat clients send is taken as it is: a call, and the turn that answers it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.routes import messaging
from tests.routes.harness import House, build, byte_tokenizer, connect
from tests.routes.reading import assembled, hermes
from tests.routes.responding import events, last_prompt
from tests.routes.templates import OPENED
from tests.support.agents import AGENTS, ASKED, COMPLETION, SESSION, TITLE, Agent

CALL = hermes("read", path="a.txt")


@pytest.fixture
def house() -> House:
    return build(card={"context_window": 1 << 20}, tokenizer=byte_tokenizer(OPENED))


async def post(house: House, path: str, body: object, headers: Any = None) -> str:
    async with connect(house) as client:
        response = await client.post(path, json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response.text


def came_back(agent: Agent, stream: str) -> Any:
    """What an agent keeps of a stream."""
    if "/messages" in agent.path:
        return [
            {key: value for key, value in block.items() if key != "open"}
            for block in messaging.assembled(messaging.events(stream))["content"]
        ]
    if "/responses" in agent.path:
        return events(stream)[-1]["response"]["output"]
    (answer,) = assembled(stream)
    calls = [
        {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(answer.calls)
    ]
    thinking = {"reasoning": answer.reasoning} if agent.keeps_thinking else {}
    return {"role": "assistant", "content": answer.content, **thinking, "tool_calls": calls}


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.label)
async def test_an_agent_calls_its_tool_and_hands_back_what_it_said(house: House, agent: Agent) -> None:
    house.says("Hm.</think>", "I read.", CALL)
    stream = await post(house, agent.path, agent.first, agent.headers)
    first = last_prompt(house)
    assert "You are an agent." in first and ASKED in first
    house.says("</think>", "It says hello.")
    stream = await post(house, agent.path, agent.later(came_back(agent, stream)), agent.headers)
    assert "It says hello." in json.dumps(came_back(agent, stream))
    later = last_prompt(house)
    thought = "(Hm.)" if agent.keeps_thinking else ""
    assert f"assistant:{thought}I read.<tool_call>read path=a.txt</tool_call><|end|><|start|>tool:hello<|end|>" in later
    assert later.startswith(first.removesuffix("<|start|>assistant:<think>\n"))


async def test_the_session_of_claude_code_is_the_cache_s(house: House) -> None:
    (agent,) = [agent for agent in AGENTS if agent.label == "claude_code"]
    house.says("</think>Hello.")
    await post(house, agent.path, agent.first, agent.headers)
    assert house.row.session is not None and SESSION in house.row.session
    assert "billing" not in house.prompt


async def test_a_title_is_generated(house: House) -> None:
    house.says("</think>A title.")
    answer = json.loads(await post(house, "/v1/chat/completions", TITLE))
    assert answer["choices"][0]["message"]["content"] == "A title."


async def test_code_is_completed_until_one_of_many_stop_strings(house: House) -> None:
    house.says("a + b\nclass Other:")
    stream = await post(house, "/v1/completions", COMPLETION)
    chunks = [json.loads(frame.removeprefix("data: ")) for frame in stream.split("\n\n")[:-2]]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "a + b"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
