"""Request bodies in the shape that Codex sends to POST /v1/responses, written from its documented fields."""

from __future__ import annotations

from typing import Any

EXEC = "exec_command"
PATCH = "apply_patch"


def tools() -> list[dict[str, Any]]:
    """Functions, a custom tool with a grammar, and a lot that only its own servers can run."""
    command = {
        "type": "object",
        "properties": {
            "cmd": {"type": "string", "description": "Shell command."},
            "workdir": {"type": "string"},
            "yield_time_ms": {"type": "number"},
        },
        "required": ["cmd"],
        "additionalProperties": False,
    }
    plan = {
        "type": "object",
        "properties": {
            "plan": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"step": {"type": "string"}, "status": {"type": "string"}},
                    "required": ["step", "status"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["plan"],
        "additionalProperties": False,
    }
    return [
        {"type": "function", "name": EXEC, "description": "Runs it.", "strict": False, "parameters": command},
        {"type": "function", "name": "update_plan", "description": "Plans.", "strict": False, "parameters": plan},
        {
            "type": "custom",
            "name": PATCH,
            "description": "Edits files. This is a FREEFORM tool.",
            "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch" LF'},
        },
        {"type": "local_shell"},
        {"type": "web_search", "external_web_access": False},
        {"type": "image_generation", "output_format": "png"},
        {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": {}},
        {
            "type": "namespace",
            "name": "mcp__files__",
            "description": "Files.",
            "tools": [{"type": "function", "name": "read", "strict": False, "parameters": {"type": "object"}}],
        },
    ]


def body(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A turn that streams. `items` follow what every session begins with."""
    return {
        "model": "gpt-5-codex",
        "instructions": "You are a coding agent.",
        "input": [
            message("developer", "<permissions>You may read.</permissions>"),
            message("user", "<environment_context><cwd>/tmp</cwd></environment_context>"),
            *items,
        ],
        "tools": tools(),
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "service_tier": "priority",
        "prompt_cache_key": "0199a213-81c0-7800-8aa1-bbab2a035a53",
        "text": {"verbosity": "low"},
        "client_metadata": {"x-codex-installation-id": "1"},
        **more,
    }


def message(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def history() -> list[dict[str, Any]]:
    """One item of every kind that comes back from earlier turns."""
    return [
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Look first."}],
            "content": None,
            "encrypted_content": "gAAAAABo",
        },
        message("assistant", "I will look."),
        {"type": "function_call", "name": EXEC, "arguments": '{"cmd":"ls"}', "call_id": "call_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "a.txt"},
        {"type": "custom_tool_call", "status": "completed", "call_id": "call_2", "name": PATCH, "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Success."},
        {
            "type": "local_shell_call",
            "call_id": "call_3",
            "status": "completed",
            "action": {"type": "exec", "command": ["cat", "a.txt"], "timeout_ms": None, "working_directory": "/tmp"},
        },
        {
            "type": "function_call_output",
            "call_id": "call_3",
            "output": [{"type": "input_text", "text": "old"}],
        },
        {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "tool_search_call", "call_id": "call_4", "execution": "client", "arguments": {"query": "x"}},
        {"type": "tool_search_output", "call_id": "call_4", "status": "completed", "execution": "client", "tools": []},
        {"type": "ghost_snapshot", "ghost_commit": {"id": "abc", "parent": None}},
        {"type": "compaction", "encrypted_content": "gAAAAABp"},
    ]
