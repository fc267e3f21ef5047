"""How far later prompts will agree with this one, whatever is answered and whatever is asked next. Pure.

Chat templates rewrite the past: they strip thinking from turns that are over, and word the beginning of an answer
otherwise once it has been given. Nobody can tell a template's habits from its text, so the conversation is rendered
as it could go on, and the renderings are compared. Models that resume only where their state was kept keep it there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from routes.schema.messages import Message

UNLIKE = "…"
"""A text that begins like no other."""


def continuations(messages: Sequence[Message], tools: bool) -> Iterator[list[Message]]:
    """Conversations to compare with: the turn goes on, the next turn has begun, another one with the same system.

    Args:
        tools: whether the prompt lists tools, which conversations have in common even without a system message.
    """
    said: Message = {"role": "assistant", "content": UNLIKE}
    asked: Message = {"role": "user", "content": UNLIKE}
    yield [*messages, said]
    yield [*messages, said, asked]
    system = list(messages[:1]) if messages[0]["role"] == "system" else []
    if system or tools:
        yield [*system, asked]


def agreeing(text: str, other: str) -> int:
    """Characters at the start that two texts have in common."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if text.startswith(other[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def whole_tokens(
    tokens: Sequence[int], spans: Sequence[tuple[int, int]], cut: int, alone: Callable[[int], bool]
) -> int:
    """How many tokens of a text lie before the character `cut` and would be the same if others came after it.

    Args:
        tokens: the text's tokens.
        spans: where each token begins and ends in it.
        alone: whether a token never becomes one with what follows it, as special tokens do not.
    """
    count = bisect_right(spans, cut, key=lambda span: span[1])
    return count if count == 0 or alone(tokens[count - 1]) else count - 1
