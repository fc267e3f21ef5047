"""All families of tool-call markup, by name, and which of them a model writes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from routes.tools import (
    deepseek,
    gemma,
    glm,
    hermes,
    kimi,
    llama,
    longcat,
    minicpm,
    minimax,
    mistral,
    pythonic,
    qwen_xml,
    tagged,
)
from routes.tools.format import ToolFormat

Detector = Callable[[str, frozenset[str]], ToolFormat | None]

_MODULES: Final = (
    tagged,
    hermes,
    qwen_xml,
    glm,
    minicpm,
    minimax,
    gemma,
    mistral,
    llama,
    pythonic,
    deepseek,
    kimi,
    longcat,
)
"""A new family is added here, and below if its markup is its own."""

_DETECTORS: Final[tuple[Detector, ...]] = (
    minimax.detects,
    longcat.detects,
    gemma.detects,
    kimi.detects,
    deepseek.detects,
    mistral.detects,
    tagged.detects,
    pythonic.detects,
    llama.detects,
)
"""In the order they are asked: those with marks of their own before `tagged`, and Llama, which shares one, last.

`pythonic` comes before `llama`: a template that asks for Python's way is followed even where the tokenizer knows
Llama 3's tag.
"""

FORMATS: Final[Mapping[str, ToolFormat]] = MappingProxyType(
    {format.name: format for module in _MODULES for format in module.FORMATS}
)
"""Name -> format."""


def detect(template: str, special_tokens: Iterable[str]) -> ToolFormat:
    """The format of a model, going by its chat template and else by its tokens; `tagged` if neither says anything.

    The template comes first: a model trained further keeps the tokens of the one it came from.
    """
    for text, tokens in ((template, frozenset[str]()), ("", frozenset(special_tokens))):
        for detects in _DETECTORS:
            found = detects(text, tokens)
            if found is not None:
                return found
    return tagged.TAGGED


def format_named(name: str) -> ToolFormat:
    """The format of that name.

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    if name not in FORMATS:
        raise ValueError(f"tool format must be one of {', '.join(sorted(FORMATS))}, not {name!r}")
    return FORMATS[name]
