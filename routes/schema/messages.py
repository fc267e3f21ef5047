"""The conversation of a chat request, checked and brought into the one shape that chat templates read. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actors.errors import InvalidRequest
from routes.schema import fields
from routes.schema.fields import Body
from routes.tools.repair import repair

Message = Mapping[str, object]
"""`role` and `content` as strings, tool-call arguments as objects; further fields as they came."""

_ROLES = ("system", "user", "assistant", "tool")
_IMAGES = ("image_url", "image", "input_image")
_AUDIO = ("input_audio", "audio", "audio_url")
_VIDEO = ("video_url", "video")


def read_messages(body: Body, model_id: str) -> tuple[Message, ...]:
    """Check and normalize `messages`.

    Raises:
        InvalidRequest: `messages required`, or what is wrong where.
    """
    listed = fields.array(body, "messages")
    if not listed:
        raise InvalidRequest("messages required")
    return tuple(_message(f"messages[{index}]", message, model_id) for index, message in enumerate(listed))


def _message(where: str, message: object, model_id: str) -> Message:
    if not isinstance(message, dict):
        raise InvalidRequest(f"{where} must be an object")
    role = message.get("role")
    if role == "developer":
        # The name that newer clients give to system messages; templates know only the old one.
        role = "system"
    if not isinstance(role, str) or role not in _ROLES:
        raise InvalidRequest(f"{where}.role must be one of " + ", ".join(f"'{word}'" for word in _ROLES))
    normal = {key: value for key, value in message.items() if value is not None}
    normal["role"] = role
    normal["content"] = _content(f"{where}.content", message.get("content"), role, model_id)
    for name in ("name", "tool_call_id"):
        _text(f"{where}.{name}", message.get(name))
    if "tool_calls" in normal:
        normal["tool_calls"] = _tool_calls(f"{where}.tool_calls", normal["tool_calls"], role)
    if role == "assistant":
        _reasoning(where, normal)
    return normal


def _content(where: str, content: object, role: str, model_id: str) -> str:
    if isinstance(content, str):
        return content
    if content is None and role == "assistant":
        return ""
    if not isinstance(content, list):
        raise InvalidRequest(f"{where} must be a string or an array of parts")
    return "".join(_part(f"{where}[{index}]", part, model_id) for index, part in enumerate(content))


def _part(where: str, part: object, model_id: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str):
        raise InvalidRequest(f"{where} must be an object with a type")
    if kind == "text":
        text = part.get("text")
        if not isinstance(text, str):
            raise InvalidRequest(f"{where}.text must be a string")
        return text
    refuse_media(where, kind, model_id)
    raise InvalidRequest(f"{where}.type is not known")


def refuse_media(where: str, kind: str, model_id: str) -> None:
    """Raises InvalidRequest for a kind of part that is no text."""
    if kind in _IMAGES:
        raise InvalidRequest(f"model has no vision sidecar ({where} is an {kind} part)")
    if kind in _AUDIO:
        raise InvalidRequest(f"model {model_id} does not accept audio ({where} is an {kind} part)")
    if kind in _VIDEO:
        raise InvalidRequest(f"model {model_id} does not accept video ({where} is a {kind} part)")


def _tool_calls(where: str, calls: object, role: str) -> list[dict[str, object]]:
    if role != "assistant":
        raise InvalidRequest(f"{where} belongs to assistant messages only")
    if not isinstance(calls, list):
        raise InvalidRequest(f"{where} must be an array")
    return [_tool_call(f"{where}[{index}]", call) for index, call in enumerate(calls)]


def _tool_call(where: str, call: object) -> dict[str, object]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise InvalidRequest(f"{where}.function must be an object")
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise InvalidRequest(f"{where}.function.name must be a non-empty string")
    _text(f"{where}.id", call.get("id"))
    arguments = call_arguments(f"{where}.function.arguments", function.get("arguments"))
    return {**call, "type": "function", "function": {**function, "arguments": arguments}}


def call_arguments(where: str, arguments: object) -> dict[str, object] | str:
    """Templates want an object; the protocol sends its JSON text.

    Text that is no JSON is a model's own broken call in somebody's history: it is mended, or left to the template.
    """
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            mended = repair(arguments)
            return mended if isinstance(mended, dict) else arguments
    elif arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise InvalidRequest(f"{where} must be a JSON object")
    return arguments


def _reasoning(where: str, message: dict[str, object]) -> None:
    """`reasoning` is another name of `reasoning_content`, which wins even when it is empty."""
    for name in ("reasoning", "reasoning_content"):
        _text(f"{where}.{name}", message.get(name))
    if "reasoning" in message:
        message.setdefault("reasoning_content", message["reasoning"])


def _text(where: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(f"{where} must be a string")
