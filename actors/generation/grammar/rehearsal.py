"""A grammar walked through before it may meet the engine: some compile in no time and then take seconds a token."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from xgrammar import CompiledGrammar

WALKS = 3
STEPS = 96
"""Tokens of a walk; what grows with the length of an answer shows within them, or in `RowMatcher`'s own guard."""
SLOWEST_S = 0.05
"""A mask or a token that takes longer than this would be felt by every row beside it."""


def rehearse(compiled: CompiledGrammar, words: int, vocabulary: int) -> str | None:
    """Write a few random answers. Returns what is wrong with the grammar, None when nothing is. Blocks."""
    for seed in range(WALKS):
        problem = _walk(compiled, words, vocabulary, np.random.default_rng(seed))
        if problem:
            return problem
    return None


def _walk(compiled: CompiledGrammar, words: int, vocabulary: int, random: np.random.Generator) -> str | None:
    import torch
    from xgrammar import GrammarMatcher

    matcher = GrammarMatcher(compiled)
    mask = np.zeros((1, words), dtype=np.int32)
    shared = torch.from_numpy(mask)
    for step in range(STEPS):
        started = time.thread_time()
        matcher.fill_next_token_bitmask(shared, 0)
        filled = time.thread_time() - started
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")[:vocabulary])
        if not len(allowed):
            # Later dead ends are the tokenizer's (a byte it cannot write) and end the row, not the request.
            return "no text matches the grammar" if step == 0 else None
        started = time.thread_time()
        matcher.accept_token(int(random.choice(allowed)))
        if max(filled, time.thread_time() - started) > SLOWEST_S:
            return "the grammar is too ambiguous to follow in time"
        if matcher.is_terminated():
            break
    return None
