"""The sampler against plain numpy."""

from __future__ import annotations

import random
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.generation.filters import nucleus
from actors.generation.messages import Sampling, ToneCurve
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


@pytest.mark.parametrize("temperature", [1e-5, 1e-20, 1e-38, 1e-40, 1e-300])
@pytest.mark.parametrize("tone", [None, ToneCurve(1.0, 1.0, 1.0, 0.0)])
def test_the_coldest_temperatures_take_the_likeliest_token(temperature: float, tone: ToneCurve | None) -> None:
    values = 4 * logits(32)
    sampling = Sampling(temperature=temperature, tone=tone)
    tokens = RowSampler([sampling] * 32)(mx.array(values), range(32))
    assert tokens.tolist() == values.argmax(axis=1).tolist()


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


def weights_of(row: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities of tokens; those at minus infinity have none."""
    scaled = row.astype(np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    return weights / weights.sum()


def thinned(row: np.ndarray, sampling: Sampling) -> np.ndarray:
    """What XTC leaves of a row that top_p and min_p have filtered: the textbook definition, then top_k."""
    row = np.where(kept(row, replace(sampling, top_k=0)), row, -np.inf)
    probabilities = weights_of(row, 1.0)
    likely = np.flatnonzero(probabilities > sampling.xtc_threshold)
    least = min((probabilities[token] for token in likely), default=np.inf)
    excluded = [token for token in likely if probabilities[token] > least and token not in sampling.xtc_exempt]
    result = row.copy()
    result[excluded] = -np.inf
    if sampling.top_k:
        result[np.argsort(-result)[sampling.top_k :]] = -np.inf
    return result


XTC_ROW = np.log(np.array([0.3, 0.25, 0.2, 0.12, 0.06, 0.04, 0.02, 0.01], dtype=np.float64))


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0, xtc_probability=0.5, xtc_threshold=0.1),
        Sampling(temperature=1.0, xtc_probability=1.0, xtc_threshold=0.1),
        Sampling(temperature=1.0, xtc_probability=0.2, xtc_threshold=0.0),
        Sampling(temperature=0.6, xtc_probability=0.5, xtc_threshold=0.22),
        Sampling(temperature=1.0, xtc_probability=1.0, xtc_threshold=0.5),
        Sampling(temperature=1.3, xtc_probability=0.7, xtc_threshold=0.1, xtc_exempt=(0, 7)),
        Sampling(temperature=1.0, xtc_probability=0.5, xtc_threshold=0.21, top_p=0.6),
        Sampling(temperature=1.0, xtc_probability=0.5, xtc_threshold=0.1, min_p=0.5),
        Sampling(temperature=1.0, xtc_probability=0.5, xtc_threshold=0.15, top_k=2),
        Sampling(temperature=1.0, xtc_probability=0.5, xtc_threshold=0.15, top_k=1),
        Sampling(temperature=2.0, xtc_probability=0.9, xtc_threshold=0.05, top_p=0.95, min_p=0.1, top_k=3),
    ],
    ids=str,
)
def test_xtc_takes_the_likeliest_tokens_away_as_often_as_asked(sampling: Sampling) -> None:
    row = np.full(VOCABULARY, -50.0)
    row[: len(XTC_ROW)] = XTC_ROW
    plain = distribution(row, sampling)
    without = weights_of(thinned(row, sampling), sampling.temperature)
    expected = plain * (1 - sampling.xtc_probability) + without * sampling.xtc_probability
    seen = draw_many(row.astype(np.float32), sampling)
    assert seen[expected == 0].sum() == 0, "a filtered token was drawn"
    assert (np.abs(seen - expected) <= 5 * np.sqrt(expected * (1 - expected) / DRAWS) + 2 / DRAWS).all()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    threshold=st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.3, 0.5]),
    exempt=st.sets(st.integers(0, VOCABULARY - 1), max_size=8),
    top_p=st.sampled_from([0.0, 0.5, 0.9]),
    top_k=st.sampled_from([0, 1, 3]),
)
def test_xtc_at_certainty_draws_only_what_it_leaves(
    seed: int, threshold: float, exempt: set[int], top_p: float, top_k: int
) -> None:
    row = logits(1, seed)[0]
    sampling = Sampling(
        temperature=5.0,
        top_p=top_p,
        top_k=top_k,
        xtc_probability=1.0,
        xtc_threshold=threshold,
        xtc_exempt=tuple(exempt),
        seed=seed,
    )
    sampler = RowSampler([sampling] * 256)
    tokens = set(sampler(mx.array(np.broadcast_to(row, (256, VOCABULARY))), range(256)).tolist())  # type: ignore[arg-type]
    assert tokens <= set(np.flatnonzero(thinned(row, sampling) > -np.inf))


def test_xtc_never_takes_an_exempt_token_away() -> None:
    row = np.full(VOCABULARY, -50.0, dtype=np.float32)
    row[[3, 9, 11]] = np.log([0.97, 0.02, 0.01])
    sampling = Sampling(temperature=1.0, xtc_probability=1.0, xtc_threshold=0.005)
    exempt = replace(sampling, xtc_exempt=(3,))
    assert draw_many(row, sampling)[[3, 9]].sum() == 0
    assert draw_many(row, exempt)[3] > 0.97


def test_xtc_leaves_greedy_rows_and_rows_that_do_not_ask_alone() -> None:
    values = logits(3)
    xtc = Sampling(temperature=1.0, xtc_probability=1.0, xtc_threshold=0.01, seed=4)
    rows = [replace(xtc, temperature=0.0), xtc, Sampling(temperature=1.0, seed=9)]
    tokens: list[int] = RowSampler(rows)(mx.array(values), [0, 1, 2]).tolist()  # type: ignore[assignment]
    assert tokens[0] == values[0].argmax()
    assert tokens[2] == RowSampler([rows[2]])(mx.array(values[2:]), [2]).item()


EVERY_KIND = [
    Sampling(),
    Sampling(temperature=1.0),
    Sampling(temperature=0.7, top_p=0.8),
    Sampling(temperature=1.4, top_k=3),
    Sampling(temperature=1.1, min_p=0.1),
    Sampling(temperature=1.0, xtc_probability=0.5, xtc_threshold=0.05, xtc_exempt=(1, 2)),
    Sampling(temperature=0.9, tone=ToneCurve(2.0, 1.0, 0.5, 1.0)),
    Sampling(temperature=1.2, top_p=0.9, top_k=20, min_p=0.02, xtc_probability=0.3, tone=ToneCurve(1.0, 2.0, 2.0, 0.0)),
    Sampling(temperature=3.0, top_k=1),
]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**64 - 1), draw=st.integers(0, 10**6), shuffle=st.integers(0, 10**6))
def test_a_draw_depends_on_its_seed_and_number_alone_in_any_company(seed: int, draw: int, shuffle: int) -> None:
    source = random.Random(shuffle)
    rows = source.sample(EVERY_KIND, source.randint(1, len(EVERY_KIND)))
    rows = [replace(row, seed=(seed + index * 7919) % 2**64) for index, row in enumerate(rows)]
    values = logits(len(rows), shuffle)
    draws = [draw + index for index in range(len(rows))]
    together = RowSampler(rows)(mx.array(values), draws).tolist()
    alone = [
        RowSampler([row])(mx.array(values[index : index + 1]), [draws[index]]).item() for index, row in enumerate(rows)
    ]
    assert together == alone


def test_an_xtc_row_draws_its_token_and_its_chance_independently() -> None:
    """Among the draws that XTC spares, tokens follow the plain distribution: the two numbers do not go together."""
    row = np.full(VOCABULARY, -50.0)
    row[:4] = np.log([0.4, 0.3, 0.2, 0.1])
    sampling = Sampling(temperature=1.0, xtc_probability=0.5, xtc_threshold=0.25)
    seen = draw_many(row.astype(np.float32), sampling)
    # Token 0 comes only from spared draws, so its share of them would be off if the numbers were tied.
    assert abs(seen[0] - 0.5 * 0.4) < 5 * np.sqrt(0.2 * 0.8 / DRAWS)


@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("spread", [3.0, 0.05])
def test_a_nucleus_of_a_large_vocabulary_holds_its_mass_and_hardly_more(top_p: float, spread: float) -> None:
    values = np.random.default_rng(1).normal(scale=spread, size=(2, 8192)).astype(np.float32)
    least = np.array(nucleus(mx.array(values), mx.full((2, 1), top_p)))
    for row in range(2):
        weights = np.exp(values[row].astype(np.float64))
        weights /= weights.sum()
        order = np.argsort(-weights)
        expected = int(np.searchsorted(np.cumsum(weights[order]), top_p) + 1)
        found = int((values[row] >= least[row]).sum())
        assert weights[values[row] >= least[row]].sum() >= top_p - 1e-5
        # Exact within the tokens that are sorted; beside a flat stretch, those within a hundredth come along.
        assert found - expected <= (0 if expected <= 1000 else 0.05 * expected)
        assert found >= expected - 1
