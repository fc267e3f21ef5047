"""What a request comes to once its prompt is rendered. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.generation.grammar.constraint import Constraint
from routes.parts import Splitter


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt and how its answers are to be read."""

    tokens: Sequence[int]
    """Token ids."""
    splitter: Callable[[], Splitter]
    """Makes a splitter for one answer."""
    markers: frozenset[str] = frozenset()
    """Special tokens that are part of an answer's text."""
    thinks: bool = True
    """False when the model can think and is told not to."""
    constraint: Constraint | None = None
    """What the answer must look like."""
    instruction: str | None = None
    """The constraint in words, for a conversation in which it cannot be enforced."""
    boundaries: tuple[int, ...] = ()
    """Numbers of its first tokens, ascending, that later prompts will have too."""


MakePrompt = Callable[[str | None], Prompt]
"""Renders and tokenizes; runs in a preparation thread. Takes an instruction to put in front of the conversation, for a
constraint that cannot be enforced; raw prompts have no place for one. Raises `InvalidRequest`."""
