"""Conversations that are too long for an enforced context limit, cut at their beginning. Pure."""

from __future__ import annotations

from dataclasses import replace

from routes.context import AppContext
from routes.conversation import chat_prompt
from routes.prompt import Prompt
from routes.schema.chat import ChatCompletion


def truncated(context: AppContext, chat: ChatCompletion, words: str | None) -> Prompt:
    """As `chat_prompt`, with as much of the conversation's end as leaves room for an answer.

    What the system says stays, and so does everything from the last message of the user on. A cut lies before a user's
    message, so no result loses its call. Renders some ten times at most. Without an enforced limit nothing is cut.
    """
    prompt = chat_prompt(context, chat, words)
    limit = context.generation.description.context_limit
    if limit is None:
        return prompt
    wanted = chat.generation.max_tokens or limit
    most = limit - max(1, min(wanted, limit // 4))
    starts = [index for index, message in enumerate(chat.messages) if message["role"] == "user"][1:]
    if len(prompt.tokens) <= most or not starts:
        return prompt
    # The longest end that fits, or else the shortest one: what is too long even then is refused by the limit itself.
    low, high = 0, len(starts) - 1
    while low < high:
        middle = (low + high) // 2
        if len(chat_prompt(context, _from(chat, starts[middle]), words).tokens) <= most:
            high = middle
        else:
            low = middle + 1
    return chat_prompt(context, _from(chat, starts[low]), words)


def _from(chat: ChatCompletion, start: int) -> ChatCompletion:
    head = chat.messages[:1] if chat.messages[0]["role"] == "system" else ()
    return replace(chat, messages=(*head, *chat.messages[start:]))
