"""What one engine step does with the prompts that are not computed yet. Pure.

Running rows wait while a chunk of somebody's prompt is computed. `PrefillRate` says how many prompt tokens a step
may compute for a bearable wait, `plan` says whose.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

LONE_S = 1.0
"""Length of a chunk, in seconds, while nobody decodes: a newcomer is looked at about this often."""

GRAIN = 16
"""Budgets are multiples of this, so that the shapes of passes repeat."""

FIRST_GUESS = 64
"""Budget before anything was measured, and the least one while nobody decodes."""

SHORT = 64
"""Prompts with this many tokens left or fewer are short: several of them fit into a pass."""

CROWD = 4
"""How many times longer rows may wait for a pass that serves more rows than wait for it."""

GROWTH = 4
"""A budget is at most this many times the largest pass measured of late: a fit is not trusted far beyond its data."""

WINDOW = 12
"""Passes remembered. Medians over them follow a change after half as many."""

APART = 0.1
"""Two passes tell a slope when their sizes differ by this part of the larger one; closer ones tell only noise."""


@dataclass(frozen=True, slots=True)
class PrefillJob:
    """An admitted row whose prompt is not computed yet."""

    key: str
    """Name of the row."""
    remaining: int
    """Prompt tokens to compute before it can decode: all but the last one."""
    stop: int | None = None
    """Prompt tokens after which its state is to be kept: a pass ends there, and holds no other row."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What to do before the next decode step."""

    chunk: tuple[tuple[str, int], ...] | None
    """Rows and how many tokens of each to compute, as one forward pass; None when there is nothing to compute."""
    join: tuple[str, ...]
    """Rows that need no pass and join the decoding ones at once."""


def plan(decoding: int, max_rows: int, jobs: Sequence[PrefillJob], budget: int, joinable: bool) -> StepPlan:
    """Decide one step.

    The oldest unfinished prompt is always served. Others come along only when all of it and all of theirs fit into
    the pass, padding included.

    Args:
        decoding: rows that decode now.
        max_rows: rows that may decode together.
        jobs: oldest first, each key once.
        budget: prompt tokens the step may compute; 0 or less computes none.
        joinable: whether the caches of the model can be batched. When not, one row decodes at a time.
    """
    seats = max(0, (max_rows if joinable else 1) - decoding)
    ready = [job.key for job in jobs if job.remaining <= 0][:seats]
    chunk: list[tuple[str, int]] = []
    waiting = [job for job in jobs if job.remaining > 0]
    if waiting and budget > 0:
        chunk = _fill(waiting, budget, seats - len(ready) if joinable else 1)
    return StepPlan(tuple(chunk) or None, tuple(ready))


def _fill(jobs: Sequence[PrefillJob], budget: int, rows: int) -> list[tuple[str, int]]:
    """The oldest job's chunk, and whole others beside it while length of the longest x rows stays in the budget."""
    oldest = jobs[0]
    if oldest.stop is not None:
        return [(oldest.key, min(oldest.stop, budget))]
    chunk = [(oldest.key, min(oldest.remaining, budget))]
    if oldest.remaining > budget:
        return chunk
    longest = oldest.remaining
    for job in jobs[1:]:
        if job.stop is not None:
            continue
        if len(chunk) >= rows:
            break
        padded = max(longest, job.remaining)
        if padded * (len(chunk) + 1) <= budget:
            chunk.append((job.key, job.remaining))
            longest = padded
    return chunk


def crowd(jobs: Sequence[PrefillJob]) -> int:
    """How many short prompts stand at the head of the line."""
    count = 0
    for job in jobs:
        if job.remaining > SHORT:
            break
        count += 1
    return count


class PrefillRate:
    """How long a pass over prompt tokens takes, learned from the last ones, and the budget that follows.

    A pass costs a fixed time plus a time a token, so its rate alone says little: small chunks look slow and would
    keep themselves small. Both costs are medians over the remembered passes, which a stray pass (a first
    compilation, a busy machine) cannot move.

    Args:
        stall_s: seconds that decoding rows may wait for one chunk.
        step_tokens: largest budget, at least `GRAIN`.
    """

    def __init__(self, stall_s: float, step_tokens: int) -> None:
        self._stall_s = stall_s
        self._step_tokens = step_tokens
        self._passes: deque[tuple[int, float]] = deque(maxlen=WINDOW)
        self._fixed_s = 0.0
        self._token_s = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Tokens a second over the remembered passes; 0 before the first one."""
        seconds = sum(seconds for _, seconds in self._passes)
        return sum(tokens for tokens, _ in self._passes) / seconds if seconds else 0.0

    @property
    def short_pass_s(self) -> float:
        """How long a pass over a short prompt takes; 0 before anything was measured."""
        return self._fixed_s + self._token_s * GRAIN

    def observe(self, tokens: int, seconds: float) -> None:
        """Learn from one pass.

        Args:
            tokens: tokens computed, padding included (rows x longest).
            seconds: how long the pass took. Passes without tokens or without a sensible time are ignored.
        """
        if tokens <= 0 or not math.isfinite(seconds) or seconds <= 0:
            return
        self._passes.append((tokens, seconds))
        self._fixed_s, self._token_s = _fit(self._passes)

    def budget(self, decoding: int, waiting: int = 1) -> int:
        """Prompt tokens the next pass may compute, padding included.

        Args:
            decoding: rows that decode now and would wait; with none, chunks are about `LONE_S` long.
            waiting: short prompts at the head of the line, see `crowd`. When they outnumber the rows that decode, the
                few wait `CROWD` times as long for the many: a pass costs a fixed time, so one pass serves all sooner.
        """
        target, least = (self._stall_s, GRAIN) if decoding > 0 else (LONE_S, FIRST_GUESS)
        if 0 < decoding < waiting:
            target, least = CROWD * self._stall_s, FIRST_GUESS
        tokens = self._tokens_within(target) // GRAIN * GRAIN
        most = max(GRAIN, self._step_tokens // GRAIN * GRAIN)
        return min(max(tokens, least), most)

    def _tokens_within(self, target: float) -> int:
        if not self._passes:
            return FIRST_GUESS
        # When the fixed cost alone eats the target, smaller chunks would hardly be shorter, only more.
        variable = max(target - self._fixed_s, target / 4)
        trusted = GROWTH * max(tokens for tokens, _ in self._passes)
        return int(min(variable / self._token_s, trusted))


def _fit(passes: Sequence[tuple[int, float]] | deque[tuple[int, float]]) -> tuple[float, float]:
    """Fixed seconds (never below 0) and seconds a token (always above 0): a line through medians.

    The further two sizes are apart, the more their slope counts: among a dozen short prompts of nearly one size there
    are many pairs, and their slopes are noise. Sizes too much alike, or times that contradict a line, leave the plain
    rate of the median pass. It is right for passes of the sizes seen and careful beyond: it then takes all of the cost
    for cost of tokens.
    """
    slopes = [
        ((later_s - earlier_s) / (later - earlier), abs(later - earlier))
        for (earlier, earlier_s), (later, later_s) in combinations(passes, 2)
        if abs(later - earlier) > APART * max(later, earlier)
    ]
    slope = _weighted_median(slopes) if slopes else 0.0
    fixed = median(seconds - slope * tokens for tokens, seconds in passes)
    if slope <= 0 or fixed < 0:
        return 0.0, median(seconds / tokens for tokens, seconds in passes)
    return fixed, slope


def _weighted_median(weighted: Sequence[tuple[float, float]]) -> float:
    """The value in the middle of the weight. At least one pair of a value and its weight, above 0."""
    ordered = sorted(weighted)
    middle = sum(weight for _, weight in ordered) / 2
    passed = 0.0
    for value, weight in ordered:
        passed += weight
        if passed >= middle:
            return value
    return ordered[-1][0]
