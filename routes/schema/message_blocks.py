"""The conversation of a Messages request, in the shape that chat templates read. Pure.

Content comes in blocks. Thinking of earlier turns is left out, unless the template asks for it, and so is the work of
tools that ran on somebody else's server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from actors.errors import InvalidRequest
from routes.schema import fields
from routes.schema.fields import Body
from routes.schema.messages import Message

_AUDIO = ("input_audio", "audio", "audio_url")
_LEFT_OUT = frozenset(
    {
        "compaction",
        "container_upload",
        "fallback",
        "mcp_tool_use",
        "redacted_thinking",
        "server_tool_use",
        "tool_reference",
    }
)
_FOREIGN = "_tool_result"
"""What the kind of a block ends with that holds what a tool on a server has said."""
_BILLING = "x-anthropic-billing-header:"
"""Begins a system block in which Claude Code tells its version, with a number that changes with every request: it is
not meant for a model, and no prefix behind it would ever be found in the cache."""
_PARAGRAPH = "\n\n"


class History:
    """Reads one conversation.

    Args:
        model_id: for words about what the model cannot take.
        thinking: whether thinking of earlier turns is kept.
    """

    def __init__(self, model_id: str, thinking: bool) -> None:
        self._model_id = model_id
        self._thinking = thinking
        self._functions: dict[str, str] = {}
        """Names of the functions that were called, by id of the call."""

    def read(self, body: Body) -> tuple[Message, ...]:
        """The system prompt, if there is one, and the messages.

        Raises:
            InvalidRequest: `messages required`, or what is wrong where.
        """
        listed = fields.array(body, "messages")
        if not listed:
            raise InvalidRequest("messages required")
        system = self._system("system", body.get("system"))
        read: list[Message] = [{"role": "system", "content": system}] if system else []
        for index, message in enumerate(listed):
            read += self._message(f"messages[{index}]", message)
        return tuple(read)

    def _message(self, where: str, message: object) -> Sequence[Message]:
        if not isinstance(message, Mapping):
            raise InvalidRequest(f"{where} must be an object")
        content, inner = message.get("content"), f"{where}.content"
        match message.get("role"):
            case "user":
                return self._user(inner, content)
            case "assistant":
                return [self._assistant(inner, content)]
            case "system":
                return [{"role": "system", "content": self._system(inner, content)}]
            case _:
                raise InvalidRequest(f"{where}.role must be one of 'user', 'assistant', 'system'")

    def _system(self, where: str, content: object) -> str:
        if content is None:
            return ""
        texts = [self._text(inner, block) for inner, block in _blocks(where, content)]
        return _PARAGRAPH.join(text for text in texts if not text.startswith(_BILLING))

    def _user(self, where: str, content: object) -> Sequence[Message]:
        """What the user says, and what came of the calls before it: one message each, in their order."""
        read: list[dict[str, object]] = []
        for inner, block in _blocks(where, content):
            if block["type"] == "tool_result":
                read.append(self._result(inner, block))
                continue
            text = self._text(inner, block)
            if read and read[-1]["role"] == "user":
                read[-1]["content"] = f"{read[-1]['content']}{text}"
            elif text:
                read.append({"role": "user", "content": text})
        return read or [{"role": "user", "content": ""}]

    def _assistant(self, where: str, content: object) -> Message:
        text: list[str] = []
        thoughts: list[str] = []
        calls: list[Mapping[str, object]] = []
        for inner, block in _blocks(where, content):
            if block["type"] == "thinking":
                thoughts.append(_string(f"{inner}.thinking", block.get("thinking")))
            elif block["type"] == "tool_use":
                calls.append(self._call(inner, block))
            else:
                text.append(self._text(inner, block))
        message: dict[str, object] = {"role": "assistant", "content": "".join(text)}
        if calls:
            message["tool_calls"] = calls
        if self._thinking and any(thoughts):
            message["reasoning_content"] = _PARAGRAPH.join(thoughts)
        return message

    def _call(self, where: str, block: Body) -> Mapping[str, object]:
        name, call_id = _string(f"{where}.name", block.get("name")), _string(f"{where}.id", block.get("id"))
        if not name:
            raise InvalidRequest(f"{where}.name must not be empty")
        arguments = fields.mapping({f"{where}.input": block.get("input")}, f"{where}.input") or {}
        self._functions[call_id] = name
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _result(self, where: str, block: Body) -> dict[str, object]:
        call_id = _string(f"{where}.tool_use_id", block.get("tool_use_id"))
        failed = fields.boolean({f"{where}.is_error": block.get("is_error")}, f"{where}.is_error")
        content = block.get("content")
        parts = [] if content is None else [self._text(*part) for part in _blocks(f"{where}.content", content)]
        said = "\n".join(part for part in parts if part)
        message: dict[str, object] = {"role": "tool", "tool_call_id": call_id}
        message["content"] = f"Error: {said}" if failed else said
        if call_id in self._functions:
            message["name"] = self._functions[call_id]
        return message

    def _text(self, where: str, block: Body) -> str:
        """The text of a block that is nothing but text; empty for one that is left out."""
        kind = str(block["type"])
        match kind:
            case "text":
                return _string(f"{where}.text", block.get("text"))
            case "document":
                return self._document(where, block)
            case "search_result":
                found = self._plain(f"{where}.content", block.get("content"))
                return "\n".join([*(str(block[name]) for name in ("title", "source") if block.get(name)), *found])
            case "image":
                raise InvalidRequest(f"model has no vision sidecar ({where} is an image block)")
            case _ if kind in _AUDIO:
                raise InvalidRequest(
                    f"{where}: this protocol has no audio; audio goes to /v1/chat/completions, for models that hear"
                )
            case _ if kind in _LEFT_OUT or (kind.endswith(_FOREIGN) and kind != "tool_result"):
                return ""
            case _:
                raise InvalidRequest(f"{where}.type '{kind[:64]}' is not known, or has no place here")

    def _document(self, where: str, block: Body) -> str:
        source = block.get("source")
        kind = source.get("type") if isinstance(source, Mapping) else None
        if isinstance(source, Mapping) and kind == "text":
            text = _string(f"{where}.source.data", source.get("data"))
        elif isinstance(source, Mapping) and kind == "content":
            text = "".join(self._plain(f"{where}.source.content", source.get("content")))
        else:
            raise InvalidRequest(f"{where}: model {self._model_id} reads documents of plain text only")
        return f"{block['title']}\n{text}" if isinstance(block.get("title"), str) else text

    def _plain(self, where: str, content: object) -> Sequence[str]:
        """Texts within a block, where nothing else has a place."""
        texts: list[str] = []
        for inner, block in _blocks(where, content):
            if block["type"] not in ("text", "image"):
                raise InvalidRequest(f"{inner} must be a block of text")
            texts.append(self._text(inner, block))
        return texts


def _blocks(where: str, content: object) -> Iterator[tuple[str, Body]]:
    """The blocks of a content and where each of them stands; a string is one block of text."""
    if isinstance(content, str):
        yield where, {"type": "text", "text": content}
        return
    if not isinstance(content, list):
        raise InvalidRequest(f"{where} must be a string or an array of content blocks")
    for index, block in enumerate(content):
        if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
            raise InvalidRequest(f"{where}[{index}] must be an object with a type")
        yield f"{where}[{index}]", block


def _string(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{where} must be a string")
    return value
