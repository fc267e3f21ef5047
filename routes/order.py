"""What one request asks for, once its protocol has read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from routes.prompt import MakePrompt
from routes.schema.generation import GenerationFields
from routes.shape import ShapeMaker


@dataclass(frozen=True)
class Order:
    """Everything about one answer that is not the same for all protocols."""

    prompt: MakePrompt
    """The work that makes its prompt."""
    wanted: GenerationFields
    """How to generate it."""
    shape: ShapeMaker
    """Writes it as JSON; called once."""
    conclude: Callable[[], Awaitable[None]] | None = None
    """What has to be done once the answer is complete, before its end is sent; cancelled when the client leaves.
    Must not raise."""
