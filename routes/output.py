"""How the served model marks its thinking and its tool calls, and the splitter that reads one answer by it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.errors import StartError
from actors.settings import GenerationSettings
from routes.parts import Content, Part, Splitter, ToolCall
from routes.reasoning.families import ReasoningFamily, detect, family_named
from routes.reasoning.plain import PlainSplitter
from routes.schema.tools import Toolbox
from routes.tokenizer import ChatTokenizer
from routes.tools import families
from routes.tools.format import ToolFormat
from routes.tools.splitter import ToolSplitter


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """Of one model."""

    reasoning: ReasoningFamily
    """Marks of thinking."""
    calls: ToolFormat
    """Markup of tool calls; unused where the reasoning family finds calls itself."""

    def markers(self, tools: bool) -> frozenset[str]:
        """Special tokens that have to be seen in the text. `tools`: whether calls are looked for."""
        return frozenset(self.reasoning.markers) | (frozenset(self.calls.markers) if tools else frozenset())

    def splitter(self, opened: bool, toolbox: Toolbox) -> Splitter:
        """For one answer. `opened`: whether its prompt ends in an open thinking block."""
        thinking = self.reasoning.splitter(opened, toolbox.schemas)
        if not toolbox.tools:
            return thinking
        if self.reasoning.calls:
            return thinking if toolbox.parallel else OneCall(thinking)
        return Chain(thinking, ToolSplitter(self.calls, toolbox.schemas, toolbox.parallel))


def plain_splitter() -> Splitter:
    """For raw text, in which nothing is markup."""
    return PlainSplitter()


def output_format(tokenizer: ChatTokenizer, settings: GenerationSettings) -> OutputFormat:
    """The model's own formats, or those that the settings name.

    Raises:
        StartError: the settings name one that does not exist.
    """
    try:
        reasoning = (
            family_named(settings.reasoning_format)
            if settings.reasoning_format
            else detect(tokenizer.template_text, tokenizer.tokens)
        )
    except ValueError as error:
        raise StartError(f"generation.reasoning_format: {error}") from None
    try:
        calls = (
            families.format_named(settings.tool_format)
            if settings.tool_format
            else families.detect(tokenizer.template_text, tokenizer.tokens)
        )
    except ValueError as error:
        raise StartError(f"generation.tool_format: {error}") from None
    return OutputFormat(reasoning, calls)


def grammar_switch(settings: GenerationSettings, environment: Mapping[str, str]) -> str | None:
    """Why constraints are not enforced by grammars, if somebody has switched them off."""
    if environment.get("MLX_BUN_GRAMMAR") == "0":
        return "grammar compilation disabled by MLX_BUN_GRAMMAR=0"
    return None if settings.grammar.enabled else "grammar compilation disabled by generation.grammar.enabled"


class OneCall:
    """Nothing after the first call, for a splitter that would find several."""

    def __init__(self, splitter: Splitter) -> None:
        self._splitter = splitter
        self.done = False
        """Whether the call has come."""

    @property
    def buffering(self) -> bool:
        return self._splitter.buffering

    def feed(self, text: str) -> list[Part]:
        return self._first(self._splitter.feed(text))

    def flush(self) -> list[Part]:
        return self._first(self._splitter.flush())

    def _first(self, parts: list[Part]) -> list[Part]:
        if self.done:
            return []
        for count, part in enumerate(parts, 1):
            if isinstance(part, ToolCall):
                self.done = True
                return parts[:count]
        return parts


class Chain:
    """Thinking first; what is content after that is searched for calls."""

    def __init__(self, thinking: Splitter, calls: ToolSplitter) -> None:
        self._thinking = thinking
        self._calls = calls

    @property
    def buffering(self) -> bool:
        return self._calls.buffering

    @property
    def done(self) -> bool:
        """Whether nothing can come any more."""
        return self._calls.done

    def feed(self, text: str) -> list[Part]:
        return self._searched(self._thinking.feed(text))

    def flush(self) -> list[Part]:
        return [*self._searched(self._thinking.flush()), *self._calls.flush()]

    def _searched(self, parts: list[Part]) -> list[Part]:
        found: list[Part] = []
        for part in parts:
            found += self._calls.feed(part.text) if isinstance(part, Content) else [part]
        return found
