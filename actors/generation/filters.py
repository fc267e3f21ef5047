"""Filters over the tokens of a row: the least logit that stays, and what XTC takes away. Vectorized over rows."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

_SORTED = 1024
"""Likeliest tokens that are sorted to find a nucleus."""
_BISECTIONS = 9


def nucleus(logits: mx.array, mass: mx.array) -> mx.array:
    """The largest least logit whose tokens still hold `mass` of the probability. [rows, 1]

    It is exact where the `_SORTED` likeliest tokens hold that much, which they do but for nearly flat distributions:
    sorting everything takes ten times as long. For the others it is found by bisection, and may let in some tokens
    that are less than a hundredth less likely than the last one of the nucleus.
    """
    top = mx.max(logits, axis=-1, keepdims=True)
    weights = mx.exp(logits - top)
    whole = mx.sum(weights, axis=-1, keepdims=True)
    needed = mass * whole
    count = min(_SORTED, logits.shape[-1])
    likeliest = mx.sort(mx.topk(logits, count, axis=-1), axis=-1)[:, ::-1]
    held = mx.cumsum(mx.exp(likeliest - top), axis=-1)
    # Those before which the mass is not reached yet are in.
    before = mx.concatenate([mx.zeros_like(top), held[:, :-1]], axis=-1)
    least = mx.min(mx.where(before < needed, likeliest, mx.inf), axis=-1, keepdims=True)
    if count < logits.shape[-1]:
        # Tokens below an equal share of what may be left out cannot be needed.
        share = mx.log(mx.maximum(whole - needed, 1e-12) / logits.shape[-1])
        beyond = top + _bisected(weights, needed, share, likeliest[:, -1:] - top)
        least = mx.where(held[:, -1:] >= needed, least, beyond)
    return mx.where(mass >= 1, -mx.inf, least)


def _bisected(weights: mx.array, needed: mx.array, low: mx.array, high: mx.array) -> mx.array:
    """Logarithm of a least weight between two, whose tokens hold what is needed. [rows, 1]"""
    high = mx.maximum(low, high)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        enough = mx.sum(mx.where(weights >= mx.exp(middle), weights, 0), axis=-1, keepdims=True) >= needed
        low = mx.where(enough, middle, low)
        high = mx.where(enough, high, middle)
    return low


def kth(logits: mx.array, top_k: Sequence[int]) -> mx.array:
    """Each row's k-th largest logit; minus infinity where k is off or covers the vocabulary. [rows, 1]"""
    vocabulary = logits.shape[-1]
    limited = [k if 0 < k < vocabulary else 0 for k in top_k]
    widest = max(limited)
    if widest == 0:
        return mx.full((len(limited), 1), -mx.inf)
    ascending = mx.sort(mx.topk(logits, widest, axis=-1), axis=-1)
    column = mx.array([widest - k if k else 0 for k in limited], dtype=mx.int32)[:, None]
    kth = mx.take_along_axis(ascending, column, axis=-1)
    return mx.where(mx.array([k > 0 for k in limited])[:, None], kth, -mx.inf)


def least_likely_above(logits: mx.array, threshold: mx.array) -> mx.array:
    """The smallest logit whose probability is above the threshold; infinite where none is. [rows, 1]"""
    probabilities = mx.softmax(logits, axis=-1)
    return mx.min(mx.where(probabilities > threshold, logits, mx.inf), axis=-1, keepdims=True)
