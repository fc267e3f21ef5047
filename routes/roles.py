"""Conversations in an order of roles that strict chat templates accept. Pure.

Many templates raise on a system message that is not the first, on two messages of one role in a row, or on any system
message at all. Clients send all of that. So a conversation has three readings, each a bit further from what was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from routes.schema.messages import Message

Messages = Sequence[Message]


def attempts(messages: Messages) -> Iterator[Messages]:
    """The readings of a conversation, to be tried in turn: as it is, `merged`, `folded`. None comes twice."""
    tried: list[list[Message]] = []
    for reading in (lambda: messages, lambda: merged(messages), lambda: folded(messages)):
        attempt = list(reading())
        if attempt not in tried:
            tried.append(attempt)
            yield attempt


def merged(messages: Messages) -> list[Message]:
    """One system message, in front, holding all of them; then no two messages of user or assistant in a row.

    Results of tools stay as they are and where they are, so each still follows the call it belongs to.
    """
    system = [message for message in messages if message["role"] == "system"]
    others = [message for message in messages if message["role"] != "system"]
    result: list[Message] = []
    for message in [*system, *others]:
        if result and message["role"] != "tool" and result[-1]["role"] == message["role"]:
            result[-1] = _joined(result[-1], message)
        else:
            result.append(message)
    return result


def folded(messages: Messages) -> list[Message]:
    """As `merged`, with the system message at the head of the first user message.

    A conversation that does not begin with a user begins with the system message as one.
    """
    first, *rest = merged(messages) or [{}]
    if first.get("role") != "system":
        return [first, *rest] if first else []
    return merged([{**first, "role": "user"}, *rest])


def _joined(first: Message, second: Message) -> Message:
    """One message in place of two of the same role."""
    joined = {**second, **first, "content": _paragraphs(first, second, "content")}
    for name in ("reasoning", "reasoning_content"):
        if name in joined:
            joined[name] = _paragraphs(first, second, name)
    calls = [*_calls(first), *_calls(second)]
    if calls:
        joined["tool_calls"] = calls
    return joined


def _paragraphs(first: Message, second: Message, name: str) -> str:
    return "\n\n".join(str(message[name]) for message in (first, second) if message.get(name))


def _calls(message: Message) -> list[object]:
    calls = message.get("tool_calls")
    return list(calls) if isinstance(calls, list | tuple) else []
