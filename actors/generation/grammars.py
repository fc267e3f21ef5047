"""The scheduler's grammars.

What they import (xgrammar, and torch with it) takes seconds and is loaded before the first request: libraries that are
loaded while the engine computes have been seen to leave it waiting for ever. The compiler's child starts behind that.
"""

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
        self._warming: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load everything, then start the compiler's child without waiting for it. Never raises: without grammars, the
        server serves all the same."""
        if not self._settings.enabled:
            return
        self._house = asyncio.ensure_future(self._open())
        try:
            house = await asyncio.shield(self._house)
        except Exception as error:
            log.warning("structured output is not available: %s", error)
            return
        self._warming = asyncio.ensure_future(house.warm())

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
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        self._house.cancel()
        done = await asyncio.gather(self._house, return_exceptions=True)
        if isinstance(done[0], GrammarHouse):
            await done[0].close()

    async def _open(self) -> GrammarHouse:
        try:
            return await asyncio.to_thread(self._build)
        except Exception:
            log.exception("grammars are not available")
            raise

    def _build(self) -> GrammarHouse:
        settings, stops = self._settings, self._card.eos_token_ids
        known = tokens.load(self._card.path, self._vocabulary, stops, MARKERS)
        return GrammarHouse(known, settings.cache_bytes, Bounds(seconds=settings.compile_timeout_s))
