"""The tools of a Responses request. Pure.

Functions are offered as they are, custom tools as functions with one string. What only OpenAI's own servers can run
(web search and such) and namespaces of tools are left out without a word, because clients offer them to everybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.errors import InvalidRequest
from routes.schema import fields
from routes.schema.fields import Body
from routes.schema.tools import Tool, Toolbox

INPUT = "input"
"""The one argument of a custom tool's function."""
_MOST_TOOLS = 1024
_MODES = ("none", "auto", "required")


@dataclass(frozen=True, slots=True)
class ResponseTools:
    """What may be called, and what the response says of it."""

    toolbox: Toolbox
    """As every protocol offers it."""
    custom: frozenset[str]
    """Names of functions that stand for custom tools."""
    listed: tuple[Mapping[str, object], ...]
    """The entries that were not left out, as they came."""
    choice: object
    """`tool_choice` as it came."""


def read_response_tools(body: Body, more: Sequence[object]) -> ResponseTools:
    """Check and read `tools`, `tool_choice` and `parallel_tool_calls`.

    Args:
        body: the request.
        more: entries that came as an input item.

    Raises:
        InvalidRequest: one is wrong, or a call is required of a tool that is not there.
    """
    entries = [*(fields.array(body, "tools") or ()), *more]
    if len(entries) > _MOST_TOOLS:
        raise InvalidRequest(f"tools must have at most {_MOST_TOOLS} entries")
    listed: list[Mapping[str, object]] = []
    tools: list[Tool] = []
    for index, entry in enumerate(entries):
        tool = _tool(f"tools[{index}]", entry)
        if tool is not None and isinstance(entry, dict):
            listed.append(entry)
            tools.append(tool)
    custom = frozenset(str(entry["name"]) for entry in listed if entry["type"] == "custom")
    parallel = fields.boolean(body, "parallel_tool_calls") is not False
    choice = body.get("tool_choice")
    mode, names = _choice(choice)
    box = _toolbox(tools, mode, names, parallel, left_out=len(entries) > len(tools))
    return ResponseTools(box, custom, tuple(listed), "auto" if choice is None else choice)


def _toolbox(tools: Sequence[Tool], mode: str, names: frozenset[str] | None, parallel: bool, left_out: bool) -> Toolbox:
    """`names`: the only ones that may be called; None does not say."""
    allowed = tuple(tool for tool in tools if names is None or tool_name(tool) in names)
    if mode == "none":
        return Toolbox()
    if mode == "auto" or (not allowed and names is None and left_out):
        return Toolbox(allowed, parallel=parallel) if allowed else Toolbox()
    if not allowed:
        missing = "a tool" if not names else " or ".join(f"a tool named '{name}'" for name in sorted(names))
        raise InvalidRequest(f"tool_choice asks for {missing}, but tools has none")
    if mode == "named":
        return Toolbox(tuple(tools), "required", tool_name(allowed[0]), parallel)
    return Toolbox(allowed, "required", None, parallel)


def _choice(choice: object) -> tuple[str, frozenset[str] | None]:
    """`none`, `auto`, `required` or `named`, and the names that may be called if it says so."""
    if choice is None:
        return "auto", None
    if isinstance(choice, str) and choice in _MODES:
        return choice, None
    kind = choice.get("type") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(kind, str):
        raise InvalidRequest("tool_choice must be 'none', 'auto', 'required' or an object with a type")
    if kind in ("function", "custom"):
        return "named", frozenset({_name("tool_choice", choice)})
    if kind != "allowed_tools":
        return "auto", None  # of a tool that is left out
    mode = fields.choice({"tool_choice.mode": choice.get("mode")}, "tool_choice.mode", _MODES[1:]) or "auto"
    return mode, _allowed(choice.get("tools"))


def _allowed(entries: object) -> frozenset[str]:
    if not isinstance(entries, list):
        raise InvalidRequest("tool_choice.tools must be an array")
    if not all(isinstance(entry, dict) for entry in entries):
        raise InvalidRequest("tool_choice.tools must be an array of objects")
    return frozenset(entry["name"] for entry in entries if isinstance(entry.get("name"), str))


def _tool(where: str, entry: object) -> Tool | None:
    """The function that stands for an entry; None for one that is left out."""
    if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
        raise InvalidRequest(f"{where} must be an object with a type")
    if entry["type"] not in ("function", "custom"):
        return None
    function: dict[str, object] = {"name": _name(where, entry)}
    description = fields.string({f"{where}.description": entry.get("description")}, f"{where}.description")
    if entry["type"] == "custom":
        words = "\n\n".join(word for word in (description, _syntax(where, entry.get("format"))) if word)
        parameters: dict[str, object] = {
            "type": "object",
            "properties": {INPUT: {"type": "string"}},
            "required": [INPUT],
            "additionalProperties": False,
        }
        return {"type": "function", "function": {**function, "description": words, "parameters": parameters}}
    if description is not None:
        function["description"] = description
    given = fields.mapping({f"{where}.parameters": entry.get("parameters")}, f"{where}.parameters")
    if given is not None:
        fields.shallow(f"{where}.parameters", given)
        function["parameters"] = given
    if isinstance(entry.get("strict"), bool):
        function["strict"] = entry["strict"]
    return {"type": "function", "function": function}


def _syntax(where: str, form: object) -> str | None:
    """What a custom tool's input looks like, in words: there is no grammar for text within a call."""
    wanted = fields.mapping({f"{where}.format": form}, f"{where}.format")
    if wanted is None or wanted.get("type") != "grammar":
        return None
    named = {f"{where}.format.{key}": wanted.get(key) for key in ("syntax", "definition")}
    syntax, definition = (fields.string(named, name) for name in named)
    return f"The input follows this grammar ({syntax or 'lark'}):\n{definition}" if definition else None


def tool_name(tool: Tool) -> str:
    """The name of a tool's function."""
    function = tool["function"]
    assert isinstance(function, dict)
    return str(function["name"])


def _name(where: str, entry: Mapping[str, object]) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidRequest(f"{where}.name must be a non-empty string")
    return name
