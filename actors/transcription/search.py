"""Choosing tokens: the likeliest ones, drawn ones, or a beam search. MLX; engine thread only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from actors.transcription.beams import Beams
from actors.transcription.graph import Graph
from actors.transcription.rules import TokenRules

GoOn = Callable[[], bool]
"""Asked between two tokens; False ends the search, whose result nobody reads then."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to."""

    tokens: list[int]
    """Without the prompt and the end token."""
    score: float
    """Sum of the tokens' log-probabilities, the end token's included."""


def follow(
    graph: Graph, scores: mx.array, rules: TokenRules, limit: int, temperature: float, key: mx.array, go_on: GoOn
) -> Found:
    """One row: the likeliest tokens at temperature 0, else drawn ones.

    The next pass is started before its token is read, so that Python works while the device does.

    Args:
        graph: has read the prompt.
        scores: behind the prompt, (1, vocabulary).
        rules: of the window.
        limit: tokens at most.
        temperature: 0 or more.
        key: randomness of the draws.
        go_on: see `GoOn`.
    """
    tokens: list[int] = []
    total = 0.0
    token, score = _choose(rules.apply(scores, [tokens]), temperature, key, 0)
    for place in range(1, limit + 1):
        following = graph.step(token) if place < limit else None
        if following is not None:
            mx.async_eval(following, token, score)
        value: Any = score.item()
        chosen: Any = token.item()
        total += value
        if chosen == rules.end:
            break
        tokens.append(chosen)
        if following is None or not go_on():
            break
        token, score = _choose(rules.apply(following, [tokens]), temperature, key, place)
    return Found(tokens, total)


def search(graph: Graph, scores: mx.array, rules: TokenRules, limit: int, width: int, go_on: GoOn) -> Found:
    """Beam search: the sequence whose log-probability a token is best, of those that `width` beams come to."""
    beams = Beams(width, rules.end)
    graph.spread(width)
    step = beams.begin(*_best(rules.apply(scores, [[]]), width + 1))
    for _ in range(1, limit):
        if step is None or not go_on():
            break
        graph.reorder(step.sources)
        following = graph.step(mx.array(step.tokens))
        step = beams.advance(*_best(rules.apply(following, beams.said), width + 1))
    best = beams.best()
    return Found(best.tokens, best.score)


def _choose(scores: mx.array, temperature: float, key: mx.array, place: int) -> tuple[mx.array, mx.array]:
    """Token and log-probability of each row."""
    if temperature == 0:
        token = mx.argmax(scores, axis=-1)
    else:
        token = mx.random.categorical(scores / temperature, key=mx.random.split(key, place + 1)[place])
    chosen = mx.take_along_axis(scores, token[:, None], axis=-1)[:, 0]
    return token, chosen - mx.logsumexp(scores, axis=-1)


def _best(scores: mx.array, count: int) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[float]]]:
    """The likeliest tokens of each row and their log-probabilities, best first."""
    logs = scores - mx.logsumexp(scores, axis=-1, keepdims=True)
    places = mx.argpartition(-logs, kth=count - 1, axis=-1)[:, :count]
    values = np.array(mx.take_along_axis(logs, places, axis=-1))
    order = np.argsort(-values, axis=-1, kind="stable")
    found = np.take_along_axis(np.array(places), order, axis=-1)
    return found.tolist(), np.take_along_axis(values, order, axis=-1).tolist()
