"""From a conversation to its prompt, for every protocol that has conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from actors.generation.grammar.constraint import Budget, Constraint
from routes.context import AppContext
from routes.enforcement import enforced
from routes.prompt import Prompt
from routes.schema.chat import ChatCompletion
from routes.schema.constraint import instruction
from routes.schema.messages import Message


def chat_prompt(context: AppContext, chat: ChatCompletion, words: str | None) -> Prompt:
    """Render a conversation; `words` go in front of it as a system message. Blocks for milliseconds.

    Raises:
        InvalidRequest: the template refuses the messages, or a call is required that cannot be enforced.
    """
    messages = chat.messages if words is None else instructed(chat.messages, words)
    toolbox, output = chat.toolbox, context.output
    rendered = context.tokenizer.prepare(
        messages, chat.template_variables, chat.reasoning_effort, toolbox.tools, context.keeps_states
    )
    opened = output.reasoning.opened_by(rendered.tail)
    constraint = _constraint(context, chat, opened, rendered.thinks)
    return Prompt(
        tokens=rendered.tokens,
        splitter=lambda: output.splitter(opened, toolbox),
        markers=output.markers(bool(toolbox.tools)),
        thinks=rendered.thinks,
        constraint=_bounded(context, chat, constraint, opened, rendered.thinks),
        instruction=_instruction(chat),
        boundaries=rendered.boundaries,
    )


def _instruction(chat: ChatCompletion) -> str | None:
    if chat.toolbox.choice == "required":
        name = chat.toolbox.name
        return f"Answer with a call of {'one of the tools' if name is None else f'the tool {name}'}."
    wanted = chat.generation.constraint
    return None if wanted is None else instruction(wanted)


def _constraint(context: AppContext, chat: ChatCompletion, opened: bool, thinks: bool) -> Constraint | None:
    family = context.output.reasoning
    constraint = enforced(chat.toolbox, chat.generation.constraint, context.calls_frame, channels=family.calls)
    if constraint is None or family.calls or not family.start:
        # A family that marks every part of its answer has its thinking within the constraint.
        return constraint
    if opened:
        return replace(constraint, after=family.end)
    return replace(constraint, after=family.end, opens=family.start) if thinks else constraint


def _bounded(
    context: AppContext, chat: ChatCompletion, constraint: Constraint | None, opened: bool, thinks: bool
) -> Constraint | None:
    """The constraint of an answer with its budget of thinking, where there is one and the model thinks at all."""
    family = context.output.reasoning
    if chat.thinking_tokens is None or not thinks or not family.start:
        return constraint
    closing = tuple(context.tokenizer.encode_bare(family.closing))
    budget = Budget(chat.thinking_tokens, family.start, family.end, closing, opened, family.anywhere)
    return replace(constraint or Constraint("free"), budget=budget)


def instructed(messages: Sequence[Message], words: str) -> tuple[Message, ...]:
    """The conversation with an instruction in its first system message, or as a system message of its own."""
    first = messages[0]
    if first["role"] == "system":
        return ({**first, "content": f"{words}\n\n{first['content']}"}, *messages[1:])
    return ({"role": "system", "content": words}, *messages)
