"""The ways in which models mark their thinking, and which one a model has. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from routes.parts import Splitter
from routes.reasoning import channels, harmony
from routes.reasoning.channels import ChannelSplitter
from routes.reasoning.harmony import HarmonySplitter
from routes.reasoning.plain import PlainSplitter
from routes.reasoning.tags import TagSplitter
from routes.tools.format import Tools


@dataclass(frozen=True, slots=True)
class ReasoningFamily:
    """One way of marking."""

    name: str
    """As settings name it, such as `think`."""
    start: str
    """Literal that opens a block; empty where there are none."""
    end: str
    """Literal that closes a block; empty where there are none."""
    markers: tuple[str, ...]
    """Literals that may be special tokens; the detokenizer has to show them to the splitter."""
    signs: tuple[str, ...]
    """Literals that tell this family when they are all in the template, or all tokens of their own."""
    calls: bool
    """Whether the splitter finds tool calls too, so that no tool format is to look for any."""
    make: Callable[[bool, Tools], Splitter]
    """Makes a splitter, given whether the prompt has opened a block, and the tools."""
    anywhere: bool = False
    """Whether a block may begin in the midst of an answer."""

    @property
    def closing(self) -> str:
        """What closes a block in a model's stead, as the model itself would write it."""
        return f"\n{self.end}" if self.name == "think" else self.end

    def opened_by(self, tail: str) -> bool:
        """Whether a prompt, of which `tail` is the end, ends with an open block.

        Only whitespace may follow the start tag: what stands further up was closed by the end of its turn, or is a
        user's talk about tags.
        """
        return self.start != "" and tail.rstrip().endswith(self.start)

    def splitter(self, opened: bool, tools: Tools | None = None) -> Splitter:
        """A fresh splitter for one answer. `tools` matters only where the family finds `calls`."""
        return self.make(opened, tools or {})


def _tags(name: str, start: str, end: str) -> ReasoningFamily:
    # The end tag alone tells: some templates only cut old thinking off at it, and never write a start tag.
    return ReasoningFamily(
        name, start, end, (start, end), (end,), False, lambda opened, tools: TagSplitter(start, end, opened)
    )


HARMONY = ReasoningFamily(
    "harmony",
    harmony.START,
    harmony.END,
    harmony.MARKERS,
    ("<|channel|>", "<|message|>"),
    True,
    lambda opened, tools: HarmonySplitter(tools, opened),
    anywhere=True,
)
GEMMA4 = ReasoningFamily(
    "gemma4",
    channels.START,
    channels.END,
    ("<|channel>", channels.END),
    ("<|channel>", channels.END),
    False,
    lambda opened, tools: ChannelSplitter(opened),
    anywhere=True,
)
SEED = _tags("seed", "<seed:think>", "</seed:think>")
MISTRAL = _tags("mistral", "[THINK]", "[/THINK]")
THINK = _tags("think", "<think>", "</think>")
NONE = ReasoningFamily("none", "", "", (), (), False, lambda opened, tools: PlainSplitter())

FAMILIES: tuple[ReasoningFamily, ...] = (HARMONY, GEMMA4, SEED, MISTRAL, THINK, NONE)
"""All of them, the most telling signs first."""


def detect(template: str, tokens: frozenset[str]) -> ReasoningFamily:
    """The family of a model.

    The template decides where it says anything: vocabularies are shared between models that think and others.

    Args:
        template: text of the chat template, empty if there is none.
        tokens: the tokenizer's special and added tokens.
    """
    marking = [family for family in FAMILIES if family.signs]
    for family in marking:
        if all(sign in template for sign in family.signs):
            return family
    for family in marking:
        if all(sign in tokens for sign in family.signs):
            return family
    return NONE


def family_named(name: str) -> ReasoningFamily:
    """The family that settings name.

    Raises:
        ValueError: there is none of that name.
    """
    for family in FAMILIES:
        if family.name == name:
            return family
    raise ValueError("reasoning family must be one of " + ", ".join(family.name for family in FAMILIES))
