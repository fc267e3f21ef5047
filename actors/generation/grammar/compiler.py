"""Compiled grammars of one model: a constraint is tried out by a child first, unless it is modest, then compiled here.

What the child has shown to be quick and shallow is compiled again in this process, in a thread: that takes as long as
it took there (25 ms for a small schema; the GIL is released), while handing it over as text would take longer for
ordinary schemas, and half a minute for some that compile in 150 ms.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors import priority
from actors.generation.grammar.child import COMPILE_STACK, plain
from actors.generation.grammar.constraint import Budget, Constraint
from actors.generation.grammar.modest import modest
from actors.generation.grammar.prover import Bounds, ChildLost, Prover
from actors.generation.grammar.recipe import build
from actors.generation.grammar.stack import on_stack
from actors.generation.grammar.tokens import Tokens

if TYPE_CHECKING:
    from xgrammar import CompiledGrammar

log = logging.getLogger("troupe.generation.grammar")

STACK = 2 * COMPILE_STACK
RETRY_S = 60.0
"""How long a constraint that took too much is refused at once."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A grammar ready for `RowMatcher`. May be shared by any number of rows."""

    grammar: CompiledGrammar | None
    """xgrammar's own; None where any text will do."""
    tokens: Tokens
    """The vocabulary it is for."""
    after: str | None
    """Text that the grammar begins after."""
    opens: str | None
    """Text that makes it begin after `after`, when the answer begins with it; None where it always does."""
    size: int
    """Bytes it holds."""
    budget: Budget | None = None
    """How much may be thought before."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A constraint that cannot be enforced."""

    reason: str
    """In words, for the person who sent it."""


@dataclass(frozen=True, slots=True)
class _Kept:
    outcome: Compiled | Refused
    size: int
    until: float
    """Time on the loop's clock after which it is forgotten."""


class GrammarHouse:
    """Compiles constraints. One event loop.

    Args:
        tokens: the vocabulary.
        cache_bytes: what compiled grammars that are kept may hold together.
        bounds: what compiling one may cost.
        line: constraints that may wait for the child; more are refused.
    """

    def __init__(self, tokens: Tokens, cache_bytes: int, bounds: Bounds | None = None, line: int = 64) -> None:
        from xgrammar import GrammarCompiler

        self.tokens = tokens
        self._compiler = GrammarCompiler(tokens.info, max_threads=1, cache_enabled=False)
        self._prover = Prover(tokens, bounds or Bounds())
        self._cache_bytes = cache_bytes
        self._line = line
        self._kept: OrderedDict[Constraint, _Kept] = OrderedDict()
        self._flights: dict[Constraint, asyncio.Task[Compiled | Refused]] = {}
        self._turn = asyncio.Lock()
        # One at a time also without the child: each takes a core that the engine wants.
        self._quick = asyncio.Lock()
        self.kept_bytes = 0
        """Held by what is kept."""
        self.compiled = 0
        """Constraints that were compiled, not found."""

    async def compile(self, constraint: Constraint) -> Compiled | Refused:
        """The grammar of a constraint. Never raises for a bad one.

        Equal constraints that come together are compiled once. Cancelling abandons the waiting alone.
        """
        budget = constraint.budget
        if budget is not None and max(budget.closing) >= self.tokens.size:
            return Refused("the model has no token for the end of its thinking")
        if constraint.kind == "free":
            return Compiled(None, self.tokens, None, None, 0, budget)
        key = dataclasses.replace(constraint, after=None, opens=None, budget=None)
        outcome = self._find(key)
        if outcome is None:
            flight = self._flights.get(key)
            if flight is None:
                if len(self._flights) >= self._line:
                    return Refused("too many grammars wait to be compiled")
                flight = self._flights[key] = asyncio.ensure_future(self._compile(key))
                flight.add_done_callback(lambda _: self._flights.pop(key))
            outcome = await asyncio.shield(flight)
        if isinstance(outcome, Compiled) and key != constraint:
            return dataclasses.replace(outcome, after=constraint.after, opens=constraint.opens, budget=budget)
        return outcome

    async def warm(self) -> None:
        """Start the child now, so that the first constraint does not wait seconds for it. Never raises for that."""
        async with self._turn:
            try:
                await self._prover.start()
            except (ChildLost, OSError) as loss:
                log.warning("the grammar compiler does not start: %s", loss)

    async def close(self) -> None:
        """Stop the child and forget everything."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        await self._prover.stop()
        self._kept.clear()
        self.kept_bytes = 0

    @property
    def children(self) -> int:
        """Child processes started so far."""
        return self._prover.starts

    async def _compile(self, key: Constraint) -> Compiled | Refused:
        if modest(key):
            async with self._quick:
                self.compiled += 1
                return self._keep(key, await self._build(key), float("inf"))
        async with self._turn:
            self.compiled += 1
            forever = float("inf")
            try:
                verdict = await self._prover.prove(key)
            except ChildLost as loss:
                log.warning("a %s constraint of %d characters is refused: %s", key.kind, len(key.source), loss)
                until = asyncio.get_running_loop().time() + RETRY_S
                return self._keep(key, Refused(f"the {_noun(key)} is refused: {loss}"), until)
            except Exception:
                log.exception("the grammar compiler does not start")
                return Refused("the grammar compiler does not start")
            if verdict.problem is not None:
                return self._keep(key, Refused(f"the {_noun(key)} is refused: {verdict.problem}"), forever)
            return self._keep(key, await self._build(key), forever)

    async def _build(self, key: Constraint) -> Compiled | Refused:
        try:
            grammar = await asyncio.wrap_future(on_stack(STACK, lambda: self._compiled(key)))
        except Exception as error:  # third-party code fails in many ways, all of them the grammar's fault
            log.info("a %s constraint of %d characters fails: %s", key.kind, len(key.source), error)
            return Refused(f"the {_noun(key)} is refused: {plain(error)}")
        return Compiled(grammar, self.tokens, None, None, grammar.memory_size_bytes)

    def _compiled(self, key: Constraint) -> CompiledGrammar:
        priority.step_back()
        return build(self._compiler, key)

    # What is kept.

    def _find(self, key: Constraint) -> Compiled | Refused | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.until <= asyncio.get_running_loop().time():
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return kept.outcome

    def _keep(self, key: Constraint, outcome: Compiled | Refused, until: float) -> Compiled | Refused:
        # The source is counted as four bytes a character, the most that Python takes for one.
        size = 4 * len(key.source) + (outcome.size if isinstance(outcome, Compiled) else 4 * len(outcome.reason))
        if size <= self._cache_bytes:
            self._kept[key] = _Kept(outcome, size, until)
            self.kept_bytes += size
        while self.kept_bytes > self._cache_bytes:
            self._drop(next(iter(self._kept)))
        return outcome

    def _drop(self, key: Constraint) -> None:
        self.kept_bytes -= self._kept.pop(key).size


_NOUNS = {
    "json_schema": "JSON schema",
    "ebnf": "grammar",
    "regex": "regular expression",
    "structural": "form of calls",
}


def _noun(key: Constraint) -> str:
    nouns = {
        "json_schema": "JSON schema",
        "ebnf": "grammar",
        "regex": "regular expression",
        "structural": "form of calls",
    }
    return nouns.get(key.kind, key.kind)
