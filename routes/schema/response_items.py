"""The input items of a Responses request, and how a chat template reads them. Pure.

Of what a client hands back, reasoning is not replayed, and neither is the work of tools that ran on somebody else's
server: both are known here, checked no further and left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from actors.errors import InvalidRequest
from actors.ids import item_id
from routes.schema import fields
from routes.schema.messages import Message, call_arguments, refuse_media
from routes.schema.response_tools import INPUT

Item = Mapping[str, object]
"""One input or output item, as it travels."""

REFERENCE = "item_reference"
"""Type of an item that stands for another one, which has been an output."""
_ROLES = ("user", "assistant", "system", "developer")
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_LOCAL = {
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
}
"""Calls of tools with a kind of their own: name of the function that stands for it, and where its arguments are."""
_OUTPUTS = (
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
)
_LEFT_OUT = frozenset(
    {
        "reasoning",
        "additional_tools",
        "agent_message",
        "code_interpreter_call",
        "compaction",
        "compaction_summary",
        "compaction_trigger",
        "computer_call",
        "computer_call_output",
        "configuration_update",
        "context_compaction",
        "file_search_call",
        "ghost_snapshot",
        "image_generation_call",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)


def read_items(given: object) -> tuple[Item, ...]:
    """`input` as items: a string is a user's message. Only their types are checked; `conversation` reads the rest.

    References are among them, as `{"type": "item_reference", "id": …}`.

    Raises:
        InvalidRequest: there is no input, or an item is none.
    """
    if isinstance(given, str):
        return ({"type": "message", "role": "user", "content": given},)
    if not isinstance(given, list):
        raise InvalidRequest("input must be a string or an array of items")
    return tuple(_typed(f"input[{index}]", item) for index, item in enumerate(given))


def named(item: Item) -> Item:
    """The item as it is stored and listed: with an id, and a message's text as parts."""
    kind = str(item["type"])
    identity = item.get("id")
    if not isinstance(identity, str) or not identity:
        identity = item_id({"message": "msg", "function_call": "fc"}.get(kind, "item"))
    listed = {**item, "id": identity}
    if kind == "message":
        listed.setdefault("status", "completed")
        if isinstance(item.get("content"), str):
            text = "output_text" if item.get("role") == "assistant" else "input_text"
            listed["content"] = [{"type": text, "text": item["content"]}]
    return listed


def conversation(items: Sequence[Item], instructions: str | None, model_id: str) -> tuple[Message, ...]:
    """Messages as chat templates read them; what the system says comes first, as one message.

    Raises:
        InvalidRequest: an item is wrong, holds what the model cannot take, or nothing is left to be answered.
    """
    reader = _Reader(model_id)
    for index, item in enumerate(items):
        reader.read(f"input[{index}]", item)
    words = "\n\n".join(word for word in (instructions, *reader.system) if word)
    if not words and not reader.messages:
        raise InvalidRequest("input has no message")
    return ({"role": "system", "content": words}, *reader.messages) if words else tuple(reader.messages)


class _Reader:
    """Reads one item after the other."""

    def __init__(self, model_id: str) -> None:
        self._model_id = model_id
        self._names: dict[str, str] = {}
        self.system: list[str] = []
        self.messages: list[Message] = []

    def read(self, where: str, item: Item) -> None:
        kind = str(item["type"])
        if kind == "message":
            self._message(where, item)
        elif kind == "function_call":
            name = _required(where, "name", item)
            self._call(item, where, name, call_arguments(f"{where}.arguments", item.get("arguments")))
        elif kind == "custom_tool_call":
            self._call(item, where, _required(where, "name", item), {INPUT: _string(where, "input", item)})
        elif kind in _LOCAL:
            name, place = _LOCAL[kind]
            self._call(item, where, name, _action(f"{where}.{place}", item.get(place)))
        elif kind in _OUTPUTS:
            self._output(where, item)

    def _message(self, where: str, item: Item) -> None:
        role = item.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            raise InvalidRequest(f"{where}.role must be one of " + ", ".join(f"'{word}'" for word in _ROLES))
        content = self._text(f"{where}.content", item.get("content"))
        if role in ("system", "developer"):
            self.system.append(content)
        else:
            self.messages.append({"role": role, "content": content})

    def _call(self, item: Item, where: str, name: str, arguments: object) -> None:
        """Calls in a row, and the text before them, are one message of the model."""
        identity = _call_id(where, item)
        self._names[identity] = name
        call = {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == "assistant":
            calls = last.get("tool_calls")
            self.messages[-1] = {**last, "tool_calls": [*(calls if isinstance(calls, list) else []), call]}
        else:
            self.messages.append({"role": "assistant", "content": "", "tool_calls": [call]})

    def _output(self, where: str, item: Item) -> None:
        identity = _call_id(where, item)
        message: dict[str, object] = {"role": "tool", "tool_call_id": identity}
        if identity in self._names:
            message["name"] = self._names[identity]
        self.messages.append({**message, "content": self._result(f"{where}.output", item.get("output"))})

    def _result(self, where: str, output: object) -> str:
        """Of a tool: text, parts, or plain data, which is told as JSON."""
        if output is None or isinstance(output, str):
            return output or ""
        if isinstance(output, list) and all(isinstance(part, dict) and "type" in part for part in output):
            return self._text(where, output)
        return msgspec.json.encode(output).decode()

    def _text(self, where: str, content: object) -> str:
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise InvalidRequest(f"{where} must be a string or an array of parts")
        return "".join(self._part(f"{where}[{index}]", part) for index, part in enumerate(content))

    def _part(self, where: str, part: object) -> str:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or not isinstance(kind, str):
            raise InvalidRequest(f"{where} must be an object with a type")
        if kind in _TEXTS:
            return _string(where, "text", part)
        if kind == "refusal":
            return _string(where, "refusal", part)
        refuse_media(where, kind, self._model_id)
        if kind == "input_file":
            raise InvalidRequest(f"model {self._model_id} does not read files ({where} is an input_file part)")
        raise InvalidRequest(f"{where}.type is not known")


def _typed(where: str, item: object) -> Item:
    """An item with its type, which a message may leave out."""
    if not isinstance(item, dict):
        raise InvalidRequest(f"{where} must be an object")
    kind = item.get("type")
    if kind is None and "role" in item:
        kind = "message"
    if kind == REFERENCE or (kind is None and "id" in item):
        return {"type": REFERENCE, "id": _required(where, "id", item)}
    known = ("message", "function_call", "custom_tool_call", *_LOCAL, *_OUTPUTS)
    if not isinstance(kind, str) or (kind not in known and kind not in _LEFT_OUT):
        raise InvalidRequest(f"{where}.type is not known")
    return {**item, "type": kind}


def _action(where: str, action: object) -> Mapping[str, object]:
    if not isinstance(action, dict):
        raise InvalidRequest(f"{where} must be an object")
    return {key: value for key, value in action.items() if value is not None and (key, value) != ("type", "exec")}


def _call_id(where: str, item: Item) -> str:
    """Which call it is; older items have only the id of the item."""
    return _required(where, "call_id" if item.get("call_id") is not None or "id" not in item else "id", item)


def _required(where: str, name: str, item: Item) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"{where}.{name} must be a non-empty string")
    return value


def _string(where: str, name: str, item: Item) -> str:
    text = fields.string({f"{where}.{name}": item.get(name)}, f"{where}.{name}")
    if text is None:
        raise InvalidRequest(f"{where}.{name} must be a string")
    return text
