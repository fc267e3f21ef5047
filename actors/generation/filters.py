"""Filters over the tokens of a row: the least logit that stays, and what XTC takes away. Vectorized over rows."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

_BISECTIONS = 32


def nucleus(logits: mx.array, mass: mx.array) -> mx.array:
    """The largest least logit whose tokens still hold `mass` of the probability. [rows, 1]

    Found by bisection over the logit: sums over the vocabulary are cheaper than sorting it, on every device.
    """
    top = mx.max(logits, axis=-1, keepdims=True)
    weights = mx.exp(logits - top)
    needed = mass * mx.sum(weights, axis=-1, keepdims=True)
    low = mx.zeros_like(top)
    high = mx.ones_like(top)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        enough = mx.sum(mx.where(weights >= middle, weights, 0), axis=-1, keepdims=True) >= needed
        low = mx.where(enough, middle, low)
        high = mx.where(enough, high, middle)
    # The top token itself must survive rounding.
    kept = mx.where(weights >= mx.minimum(low, 1.0), logits, mx.inf)
    return mx.where(mass >= 1, -mx.inf, mx.min(kept, axis=-1, keepdims=True))


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
