"""The sampler against plain numpy."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.generation.messages import Sampling
from actors.generation.sampling import RowSampler, draw_keys

VOCABULARY = 64
DRAWS = 4000


def logits(rows: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(scale=2.0, size=(rows, VOCABULARY)).astype(np.float32)


def kept(row: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Which tokens the filters leave, by sorting: the textbook definitions."""
    probabilities = np.exp(row - row.max(), dtype=np.float64)
    probabilities /= probabilities.sum()
    order = np.argsort(-probabilities)
    keep = np.ones(len(row), bool)
    if 0 < sampling.top_p < 1:
        before = np.cumsum(probabilities[order]) - probabilities[order]
        keep[order[before >= sampling.top_p]] = False
    if sampling.min_p > 0:
        keep &= probabilities >= sampling.min_p * probabilities.max() * (1 - 1e-6)
    if 0 < sampling.top_k < len(row):
        keep[order[sampling.top_k :]] = False
    return keep


def distribution(row: np.ndarray, sampling: Sampling) -> np.ndarray:
    scaled = np.where(kept(row, sampling), row.astype(np.float64) / sampling.temperature, -np.inf)
    weights = np.exp(scaled - scaled.max())
    return weights / weights.sum()


def draw_many(row: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Frequencies of `DRAWS` draws, each with the next draw number of one seed."""
    sampler = RowSampler([sampling] * DRAWS)
    tokens = sampler(mx.array(np.broadcast_to(row, (DRAWS, VOCABULARY))), range(DRAWS))
    return np.bincount(np.array(tokens), minlength=VOCABULARY) / DRAWS


def test_greedy_rows_take_the_likeliest_token() -> None:
    values = logits(5)
    assert RowSampler([Sampling()] * 5)(mx.array(values), [0] * 5).tolist() == values.argmax(axis=1).tolist()


def test_top_k_of_one_is_greedy_at_any_temperature() -> None:
    values = logits(3)
    sampler = RowSampler([Sampling(temperature=5.0, top_k=1)] * 3)
    assert sampler.drawing == []
    assert sampler(mx.array(values), [0] * 3).tolist() == values.argmax(axis=1).tolist()


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0),
        Sampling(temperature=0.5),
        Sampling(temperature=1.3, top_p=0.8),
        Sampling(temperature=1.0, top_k=5),
        Sampling(temperature=2.0, min_p=0.1),
        Sampling(temperature=0.9, top_p=0.9, top_k=12, min_p=0.02),
        Sampling(temperature=1.0, top_p=1.0, top_k=VOCABULARY + 10),
    ],
    ids=str,
)
def test_draws_follow_the_distribution(sampling: Sampling) -> None:
    row = logits(1)[0]
    expected = distribution(row, sampling)
    seen = draw_many(row, sampling)
    assert seen[expected == 0].sum() == 0, "a filtered token was drawn"
    # Five standard deviations, and two draws for tokens so rare that a normal law does not fit them. The draws are
    # seeded, so this does not flicker.
    assert (np.abs(seen - expected) <= 5 * np.sqrt(expected * (1 - expected) / DRAWS) + 2 / DRAWS).all()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    top_p=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 1.0]),
    top_k=st.integers(2, VOCABULARY + 2),
    min_p=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
)
def test_only_kept_tokens_are_drawn_and_all_of_them_can_be(seed: int, top_p: float, top_k: int, min_p: float) -> None:
    row = logits(1, seed)[0]
    sampling = Sampling(temperature=5.0, top_p=top_p, top_k=top_k, min_p=min_p, seed=seed)
    rows = 512
    sampler = RowSampler([sampling] * rows)
    tokens = np.unique(np.array(sampler(mx.array(np.broadcast_to(row, (rows, VOCABULARY))), range(rows))))
    allowed = np.flatnonzero(kept(row, sampling))
    assert set(tokens) <= set(allowed)
    if len(allowed) <= 3:
        assert set(tokens) == set(allowed)


def test_rows_keep_their_own_parameters_beside_others() -> None:
    values = logits(4)
    mixed = [
        Sampling(),
        Sampling(temperature=1.0, top_k=2, seed=1),
        Sampling(temperature=0.7, seed=2),
        Sampling(temperature=1.2, top_p=0.5, seed=3),
    ]
    draws = [9, 4, 0, 77]
    together = RowSampler(mixed)(mx.array(values), draws).tolist()
    alone = [
        RowSampler([sampling])(mx.array(values[index : index + 1]), [draws[index]]).item()
        for index, sampling in enumerate(mixed)
    ]
    assert together == alone


def test_half_precision_logits_are_accepted() -> None:
    sampler = RowSampler([Sampling(temperature=1.0, top_p=0.9), Sampling()])
    tokens = sampler(mx.array(logits(2)).astype(mx.bfloat16), [0, 0])
    assert tokens.dtype == mx.int32


def test_keys_differ_by_seed_and_by_draw_and_are_stable() -> None:
    seeds = np.arange(50, dtype=np.uint64).repeat(50)
    numbers = np.tile(np.arange(50, dtype=np.uint64), 50)
    keys = draw_keys(seeds, numbers)
    assert keys.shape == (2500, 2)
    assert len({tuple(key) for key in keys.tolist()}) == 2500
    # SplitMix64 started at 0 gives this first output.
    first = draw_keys(np.array([0], np.uint64), np.array([0], np.uint64))[0]
    assert int(first[0]) | int(first[1]) << 32 == 0xE220A8397B1DCDAF
