"""POST /v1/messages with a body as Claude Code sends it."""

from __future__ import annotations

import json

from tests.routes.harness import connect
from tests.routes.messaging import PATH, assembled, events, house

CLAUDE_CODE = {
    "model": "claude-opus-4-8",
    "max_tokens": 32000,
    "stream": True,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.0.f00; cch=a1b2c;"},
        {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"type": "text", "text": "Tools may be used.", "cache_control": {"type": "ephemeral"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>\n"},
                {"type": "text", "text": "List the files.", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I list them.", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}, "caller": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py", "is_error": False},
                {"type": "text", "text": "Go on."},
            ],
        },
    ],
    "tools": [
        {
            "name": name,
            "description": "d" * 2000,
            "input_schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
                "required": ["command"],
                "additionalProperties": False,
            },
            "eager_input_streaming": True,
        }
        for name in ("Bash", "Read", "Edit", "Write", "Glob", "Grep", "Task", "TodoWrite")
    ]
    + [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
    "tool_choice": {"type": "auto"},
    "metadata": {"user_id": json.dumps({"device_id": "d" * 64, "session_id": "5e55"})},
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "diagnostics": {"previous_message_id": None},
    "speed": "standard",
}
BETAS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
    "x-api-key": "anything",
    "x-app": "cli",
}


async def test_a_body_as_claude_code_sends_it() -> None:
    server = house()
    server.says('<tool_call>\n{"name": "Bash", "arguments": {"command": "cat a.py"}}\n</tool_call>')
    async with connect(server) as client:
        response = await client.post(f"{PATH}?beta=true", json=CLAUDE_CODE, headers=BETAS)
    assert response.status_code == 200, response.text
    said = assembled(events(response.text))
    assert said["stop_reason"] == "tool_use"
    assert said["content"][0]["input"] == {"command": "cat a.py"}
    prompt = server.prompt
    assert "billing" not in prompt and "web_search" not in prompt and "I list them." not in prompt
    assert "<|start|>system:You are a coding agent.\n\nTools may be used.<|end|>" in prompt
    assert "<|start|>assistant:<tool_call>Bash command=ls</tool_call><|end|><|start|>tool:a.py<|end|>" in prompt
