"""The scheduler's grammars: made ready behind its start, because what they import takes seconds."""

from __future__ import annotations

import asyncio
import logging

from actors.generation.grammar import tokens
from actors.generation.grammar.compiler import Compiled, GrammarHouse, Refused
from actors.generation.grammar.constraint import Constraint
from actors.generation.grammar.prover import Bounds
from actors.models.card import ModelCard
from actors.settings import GrammarSettings

log = logging.getLogger("troupe.generation.grammar")

MARKERS = (
    "<tool_call>",
    "</tool_call>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "<|tool_call>",
    "<tool_call|>",
    '<|"|>',
    "[TOOL_CALLS]",
    "[ARGS]",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
    "｜DSML｜",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|start|>",
    "<|end|>",
    "<|channel|>",
    "<|constrain|>",
    "<|message|>",
)
"""Special tokens that frame a tool call; a grammar that enforces one has to spell them."""


class Grammars:
    """Event loop only.

    Args:
        card: the served checkpoint.
        vocabulary: rows of its embedding matrix.
        settings: bounds.
    """

    def __init__(self, card: ModelCard, vocabulary: int, settings: GrammarSettings) -> None:
        self._card = card
        self._vocabulary = vocabulary
        self._settings = settings
        self._house: asyncio.Task[GrammarHouse] | None = None

    def start(self) -> None:
        """Begin to get ready. Does not wait."""
        if self._settings.enabled:
            self._house = asyncio.ensure_future(self._open())

    async def compile(self, constraint: Constraint) -> Compiled | Refused:
        """The grammar of a constraint; waits until everything is ready. Never raises for a bad one."""
        if self._house is None:
            return Refused("grammars are switched off")
        try:
            house = await asyncio.shield(self._house)
        except Exception as error:
            return Refused(f"this model's tokenizer cannot be used with grammars: {error}")
        return await house.compile(constraint)

    async def close(self) -> None:
        """Stop the compiler."""
        if self._house is None:
            return
        self._house.cancel()
        done = await asyncio.gather(self._house, return_exceptions=True)
        if isinstance(done[0], GrammarHouse):
            await done[0].close()

    async def _open(self) -> GrammarHouse:
        try:
            house = await asyncio.to_thread(self._build)
        except Exception:
            log.exception("grammars are not available")
            raise
        await house.warm()
        return house

    def _build(self) -> GrammarHouse:
        settings, stops = self._settings, self._card.eos_token_ids
        known = tokens.load(self._card.path, self._vocabulary, stops, MARKERS)
        return GrammarHouse(known, settings.cache_bytes, Bounds(seconds=settings.compile_timeout_s))
