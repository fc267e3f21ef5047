"""Bias and penalties by definition, one row and one token at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from actors.generation.messages import Sampling


def penalized(logits: np.ndarray, sampling: Sampling, tokens: Sequence[int]) -> np.ndarray:
    """One row's logits in float64, after the tokens it has seen."""
    result = logits.astype(np.float64)
    for token, value in sampling.logit_bias:
        result[token] += value
    for token in set(tokens[-sampling.repetition_window :]):
        penalty = sampling.repetition_penalty
        result[token] = result[token] * penalty if result[token] < 0 else result[token] / penalty
    for token in set(tokens[-sampling.presence_window :]):
        result[token] -= sampling.presence_penalty
    for token, count in Counter(tokens[-sampling.frequency_window :]).items():
        result[token] -= sampling.frequency_penalty * count
    return result
