"""The functions a request offers to the model, and whether it must call one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from actors.errors import InvalidRequest
from routes.schema import fields
from routes.schema.fields import Body

Tool = Mapping[str, object]
"""One tool as the protocol has it: `type` and `function` with `name`, `description` and `parameters`."""

MOST_TOOLS = 1024


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Tools that may be called."""

    tools: tuple[Tool, ...] = ()
    """In the request's order, as chat templates read them; empty when none may be called."""
    choice: Literal["auto", "required"] = "auto"
    """`required`: the answer is a call."""
    name: str | None = None
    """The only function that may be called; None leaves the choice."""
    parallel: bool = True
    """Whether one answer may hold several calls."""

    @property
    def schemas(self) -> dict[str, Mapping[str, object]]:
        """JSON schema of the parameters of each function that may be called."""
        found: dict[str, Mapping[str, object]] = {}
        for tool in self.tools:
            function = tool["function"]
            assert isinstance(function, dict)
            if self.name in (None, function["name"]):
                found[str(function["name"])] = function.get("parameters") or {}
        return found


def read_tools(body: Body) -> Toolbox:
    """Check and read `tools`, `tool_choice` and `parallel_tool_calls`.

    Raises:
        InvalidRequest: one is wrong.
    """
    listed = fields.array(body, "tools") or ()
    if len(listed) > MOST_TOOLS:
        raise InvalidRequest(f"tools must have at most {MOST_TOOLS} entries")
    tools = tuple(_tool(f"tools[{index}]", tool) for index, tool in enumerate(listed))
    parallel = fields.boolean(body, "parallel_tool_calls")
    choice, name = _choice(body.get("tool_choice"))
    if choice == "none":
        return Toolbox()
    box = Toolbox(tools, "required" if choice == "required" else "auto", name, parallel is not False)
    if choice == "required" and not box.schemas:
        missing = "a tool" if name is None else f"a tool named '{name}'"
        raise InvalidRequest(f"tool_choice asks for {missing}, but tools has none")
    return box


def _choice(choice: object) -> tuple[str, str | None]:
    if isinstance(choice, dict):
        function = choice.get("function")
        if choice.get("type") == "function" and isinstance(function, dict) and _name(function):
            return "required", str(function["name"])
        raise InvalidRequest("tool_choice must name a function")
    if choice is None:
        return "auto", None
    if isinstance(choice, str) and choice in ("none", "auto", "required"):
        return choice, None
    raise InvalidRequest("tool_choice must be 'none', 'auto', 'required' or an object that names a function")


def _tool(where: str, tool: object) -> Tool:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise InvalidRequest(f"{where} must be an object of type 'function'")
    function = tool.get("function")
    if not isinstance(function, dict) or not _name(function):
        raise InvalidRequest(f"{where}.function must have a name")
    if not isinstance(function.get("parameters"), dict | None):
        raise InvalidRequest(f"{where}.function.parameters must be an object")
    fields.shallow(f"{where}.function.parameters", function.get("parameters"))
    fields.string({f"{where}.function.description": function.get("description")}, f"{where}.function.description")
    return tool


def _name(function: Mapping[str, object]) -> bool:
    name = function.get("name")
    return isinstance(name, str) and bool(name)
