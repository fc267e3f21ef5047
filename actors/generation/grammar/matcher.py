"""A grammar's place in one row."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from actors.generation.grammar.compiler import Compiled
from actors.generation.grammar.thinking import Thinking

SLOWEST_S = 0.25
"""A grammar that needs longer than this for one token fails its row: every other row waited for it. In time of the
thread, so that a busy machine is not taken for an ambiguous grammar."""


class RowMatcher:
    """Follows one row through its grammar. Engine thread only; xgrammar is imported by then.

    Args:
        compiled: with a grammar.
    """

    def __init__(self, compiled: Compiled) -> None:
        import torch
        from xgrammar import GrammarMatcher

        assert compiled.grammar is not None
        self._tokens = compiled.tokens
        self._matcher: Any = GrammarMatcher(compiled.grammar)
        self._after = compiled.after
        self._opener = compiled.tokens.single(compiled.opens) if compiled.opens and compiled.after else None
        self._thinking = Thinking(compiled.tokens, compiled.after) if compiled.after and not compiled.opens else None
        self._next = np.zeros((1, compiled.tokens.words), dtype=np.int32)
        # xgrammar writes into what torch and numpy both see; nothing is allocated in a step.
        self._shared = torch.from_numpy(self._next)
        self._known = False
        self._stuck = False
        self.binding = True
        """A grammar always has a say."""
        self.finished = False
        """The answer is complete: nothing could follow but its end or whitespace."""
        self.problem: str | None = None
        """Why the row cannot go on; then `accept` has returned False."""

    def accept(self, token: int) -> bool:
        """Take the token that was sampled. False when the row cannot go on, see `problem`."""
        opener, self._opener = self._opener, None
        if opener is not None and token == opener and self._after is not None:
            self._thinking = Thinking(self._tokens, self._after)
            return True
        if self._thinking is not None and not self._thinking.over:
            self._thinking.accept(token)
            return True
        if self._stuck:
            self.finished = token in self._tokens.stops
            return self.finished or self._fail("the grammar allows nothing that this model can write")
        started = time.thread_time()
        self._known = False
        if self.finished or not self._matcher.accept_token(token):
            return self._fail("a token that the grammar forbids")
        self.finished = self._matcher.is_terminated() or (self._matcher.is_completed() and self._at_end())
        return self._in_time(started) or self.finished

    def fill(self, row: np.ndarray) -> None:
        """Write which tokens may come next.

        Args:
            row: [words], int32; a row of `Masks.bits`.
        """
        if self._thinking is not None and not self._thinking.over:
            self._thinking.fill(row)
            return
        if self._matcher.is_terminated() or self.problem is not None:
            row[:] = self._tokens.stop_mask
            return
        self._look()
        row[:] = self._tokens.stop_mask if self._stuck else self._next[0]
        if self._opener is not None:
            row |= self._tokens.mask([self._opener])

    def _at_end(self) -> bool:
        self._look()
        return not np.any(self._next[0] & ~self._tokens.ending_mask)

    def _look(self) -> None:
        """Ask xgrammar for the next mask, once a token."""
        if self._known:
            return
        started = time.thread_time()
        self._matcher.fill_next_token_bitmask(self._shared, 0)
        self._known = True
        # A byte that no token of this model holds; only ending the row is left.
        self._stuck = not np.any(self._next[0] & self._tokens.real_mask)
        self._in_time(started)

    def _in_time(self, started: float) -> bool:
        if self.problem is None and time.thread_time() - started > SLOWEST_S:
            self.problem = "the grammar is too ambiguous to follow in time"
        return self.problem is None

    def _fail(self, problem: str) -> bool:
        self.problem = problem
        return False
