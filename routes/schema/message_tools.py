"""The tools of a Messages request, and whether one must be called. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from actors.errors import InvalidRequest
from routes.schema import fields
from routes.schema.fields import Body
from routes.schema.tools import MOST_TOOLS, Tool, Toolbox

_CHOICES = ("auto", "any", "tool", "none")


def read_message_tools(body: Body) -> Toolbox:
    """Check and read `tools` and `tool_choice`.

    Entries without a name or an `input_schema` are tools that somebody else's server runs; they are left out.

    Raises:
        InvalidRequest: one is wrong, or a call is required of what is not there.
    """
    listed = fields.array(body, "tools") or ()
    if len(listed) > MOST_TOOLS:
        raise InvalidRequest(f"tools must have at most {MOST_TOOLS} entries")
    found = [_tool(f"tools[{index}]", tool) for index, tool in enumerate(listed)]
    tools = tuple(tool for tool in found if tool is not None)
    choice = fields.mapping(body, "tool_choice") or {"type": "auto"}
    kind = choice.get("type")
    if kind not in _CHOICES:
        raise InvalidRequest("tool_choice.type must be one of " + ", ".join(f"'{word}'" for word in _CHOICES))
    name = choice.get("name") if kind == "tool" else None
    if kind == "tool" and (not isinstance(name, str) or not name):
        raise InvalidRequest("tool_choice.name must be a non-empty string")
    single = "tool_choice.disable_parallel_tool_use"
    alone = fields.boolean({single: choice.get("disable_parallel_tool_use")}, single)
    if kind == "none":
        return Toolbox()
    required = kind != "auto"
    box = Toolbox(
        tools, "required" if required else "auto", name if isinstance(name, str) else None, parallel=alone is not True
    )
    if required and not box.schemas:
        missing = "a tool" if name is None else f"a tool named '{name}'"
        raise InvalidRequest(f"tool_choice asks for {missing}, but tools has none")
    return box


def _tool(where: str, tool: object) -> Tool | None:
    if not isinstance(tool, Mapping):
        raise InvalidRequest(f"{where} must be an object")
    name, schema = tool.get("name"), tool.get("input_schema")
    if name is None or schema is None:
        return None
    if not isinstance(name, str) or not name:
        raise InvalidRequest(f"{where}.name must be a non-empty string")
    if not isinstance(schema, Mapping):
        raise InvalidRequest(f"{where}.input_schema must be an object")
    fields.shallow(f"{where}.input_schema", schema)
    described = fields.string({f"{where}.description": tool.get("description")}, f"{where}.description")
    about = {} if described is None else {"description": described}
    return {"type": "function", "function": {"name": name, **about, "parameters": schema}}
