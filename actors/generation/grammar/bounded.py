"""Thinking within a budget: when it is spent, the closing text is written in the model's stead."""

from __future__ import annotations

import numpy as np

from actors.generation.grammar.compiler import Compiled
from actors.generation.grammar.constraint import Budget
from actors.generation.grammar.matcher import RowMatcher
from actors.generation.grammar.tokens import WHITESPACE, WORD_BITS, Tokens
from actors.generation.row import Matcher


def following(compiled: Compiled) -> Matcher | None:
    """What follows one row through a constraint; None where there is nothing to follow."""
    grammar = None if compiled.grammar is None else RowMatcher(compiled)
    return grammar if compiled.budget is None else BoundedThinking(compiled.tokens, compiled.budget, grammar)


class BoundedThinking:
    """Counts the tokens of one row's thinking blocks. Engine thread only.

    Args:
        tokens: the vocabulary.
        budget: how much, and how blocks are marked.
        grammar: what the answer must look like; None for any text. It sees every token too.
    """

    def __init__(self, tokens: Tokens, budget: Budget, grammar: Matcher | None) -> None:
        self._tokens = tokens
        self._budget = budget
        self._grammar = grammar
        self._start, self._end = budget.start.encode(), budget.end.encode()
        self._inside = budget.opened
        self._looking = True
        """Whether a block may begin with the next tokens."""
        self._read = b""
        """Text since the last mark, as far as it may be a part of the next one."""
        self._spent = 0
        self._due: list[int] = []
        """Tokens of the closing text that are still to come."""

    @property
    def finished(self) -> bool:
        """Whether the grammar is complete."""
        return self._grammar is not None and self._grammar.finished

    @property
    def problem(self) -> str | None:
        """Why the row cannot go on."""
        return None if self._grammar is None else self._grammar.problem

    @property
    def binding(self) -> bool:
        """Whether the budget may be spent by the token that is not read yet, or a grammar has a say."""
        if self._grammar is not None and self._grammar.binding:
            return True
        at_the_door = self._looking and not self._budget.anywhere
        return (self._inside or at_the_door) and self._spent >= self._budget.tokens - 1

    def accept(self, token: int) -> bool:
        """Take the token that was sampled. False when the row cannot go on, see `problem`."""
        if self._grammar is not None and not self._grammar.accept(token):
            return False
        if self._inside:
            self._think(token)
        elif self._looking:
            self._look(token)
        return True

    def fill(self, row: np.ndarray) -> None:
        """Write which tokens may come next.

        Args:
            row: [words], int32; all bits are set.
        """
        if self._grammar is not None:
            self._grammar.fill(row)
        # Where the grammar has no room for the closing text there is no thinking either, whatever it looks like.
        if self._due and _allows(row, self._due[0]):
            row[:] = self._tokens.mask(self._due[:1])

    def _think(self, token: int) -> None:
        self._read += self._tokens.spellings[token]
        _, closed, rest = self._read.partition(self._end)
        if closed:
            self._inside, self._due, self._read = False, [], rest
            return
        if self._due and token == self._due[0]:
            del self._due[0]
        else:
            self._spent += 1
        self._read = self._read[-len(self._end) :]
        if self._spent >= self._budget.tokens and not self._due:
            self._due = list(self._budget.closing)

    def _look(self, token: int) -> None:
        self._read += self._tokens.spellings[token]
        if self._budget.anywhere:
            _, opened, rest = self._read.partition(self._start)
            self._read = rest if opened else self._read[-len(self._start) :]
            if opened:
                self._open()
            return
        text = self._read.lstrip(WHITESPACE)
        if text.startswith(self._start):
            self._read = text[len(self._start) :]
            self._open()
        else:
            self._looking = self._start.startswith(text)

    def _open(self) -> None:
        self._inside = True
        if self._spent >= self._budget.tokens:
            self._due = list(self._budget.closing)


def _allows(row: np.ndarray, token: int) -> bool:
    return bool(row[token // WORD_BITS] >> (token % WORD_BITS) & 1)
