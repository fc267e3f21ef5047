"""The body of POST /v1/completions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.errors import InvalidRequest
from routes.schema.fields import Body
from routes.schema.generation import GenerationFields, read_generation


@dataclass(frozen=True, slots=True)
class TextCompletion:
    """A raw prompt to continue."""

    prompt: str
    """Not empty; tokenized as it is, without a chat template."""
    generation: GenerationFields
    """How to generate."""


def read_text_completion(body: Body, headers: Mapping[str, str]) -> TextCompletion:
    """Check and read the whole body.

    Raises:
        InvalidRequest: the first field that is wrong.
    """
    prompt = body.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise InvalidRequest("prompt must be a non-empty string")
    return TextCompletion(prompt, read_generation(body, headers))
