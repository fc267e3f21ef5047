"""The tone curve against its formula, one log-probability at a time."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.generation.messages import Sampling, ToneCurve
from actors.generation.sampling import RowSampler
from actors.generation.tone import Tone

VOCABULARY = 48
DRAWS = 4000


def reference(row: np.ndarray, curve: ToneCurve | None, temperature: float) -> np.ndarray:
    """Logits of the curve for one row of filtered logits; the formula, in float64."""
    logprobs = row.astype(np.float64) - np.log(np.sum(np.exp(row.astype(np.float64))))
    slope = 1 / temperature
    if curve is None or curve.shoulder <= 0 or curve.toe <= 0:
        return slope * logprobs
    pivot = logprobs.max() - curve.pivot_offset
    return np.array([_bent(value - pivot, curve, slope) for value in logprobs])


def _bent(z: float, curve: ToneCurve, slope: float) -> float:
    w = curve.width
    if z == -math.inf:
        return -math.inf
    if z >= w:
        return slope * w + slope * curve.shoulder * math.log(1 + (z - w) / curve.shoulder)
    if z < -w:
        return -slope * w - slope * curve.toe * math.log(1 + (-z - w) / curve.toe)
    return slope * z


def probabilities(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def logits(rows: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(scale=3.0, size=(rows, VOCABULARY)).astype(np.float32)


def bend(values: np.ndarray, curves: list[ToneCurve | None], temperatures: list[float]) -> np.ndarray:
    heat = mx.array(temperatures, dtype=mx.float32)[:, None]
    array = mx.array(values)
    return np.array(Tone(curves)(array, array / heat, heat))


CURVE = st.builds(
    ToneCurve,
    width=st.floats(0.0, 20.0),
    shoulder=st.sampled_from([0.0, 0.1, 1.0, 7.5]),
    toe=st.sampled_from([0.0, 0.2, 1.0, 9.0]),
    pivot_offset=st.floats(0.0, 15.0),
)


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(st.tuples(st.one_of(st.none(), CURVE), st.floats(0.1, 5.0)), min_size=1, max_size=5),
    seed=st.integers(0, 999),
)
def test_any_mix_of_rows_follows_the_formula(rows: list[tuple[ToneCurve | None, float]], seed: int) -> None:
    values = logits(len(rows), seed)
    bent = bend(values, [curve for curve, _ in rows], [heat for _, heat in rows])
    for got, row, (curve, heat) in zip(bent, values, rows, strict=True):
        expected = reference(row, curve, heat)
        np.testing.assert_allclose(probabilities(got), probabilities(expected), rtol=2e-3, atol=1e-6)


def test_filtered_tokens_stay_out() -> None:
    values = logits(1)
    values[0, 7:30] = -np.inf
    bent = bend(values, [ToneCurve(1.0, 0.5, 0.5, 2.0)], [0.8])
    assert (bent[0, 7:30] == -np.inf).all()
    assert np.isfinite(np.delete(bent[0], np.arange(7, 30))).all()
    np.testing.assert_allclose(
        probabilities(bent[0]), probabilities(reference(values[0], ToneCurve(1.0, 0.5, 0.5, 2.0), 0.8)), rtol=1e-4
    )


@pytest.mark.parametrize(("shoulder", "toe"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_a_softness_of_zero_is_a_plain_temperature(shoulder: float, toe: float) -> None:
    values = logits(2)
    bent = bend(values, [ToneCurve(1.0, shoulder, toe, 1.0), None], [0.5, 2.0])
    np.testing.assert_allclose(bent, values / np.array([[0.5], [2.0]]), rtol=1e-6)


def test_a_middle_wider_than_everything_is_a_plain_temperature() -> None:
    values = logits(1)
    bent = bend(values, [ToneCurve(100.0, 1.0, 1.0, 3.0)], [0.7])[0]
    np.testing.assert_allclose(probabilities(bent), probabilities(values[0].astype(np.float64) / 0.7), rtol=1e-4)


def test_the_curve_keeps_the_order_and_lifts_the_tail() -> None:
    values = logits(1)
    bent = bend(values, [ToneCurve(1.0, 1.0, 1.0, 0.0)], [1.0])[0]
    assert (np.argsort(bent) == np.argsort(values[0])).all()
    least = values[0].argmin()
    assert probabilities(bent)[least] > probabilities(values[0].astype(np.float64))[least]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0, tone=ToneCurve(1.5, 0.8, 0.6, 1.0)),
        Sampling(temperature=0.6, top_k=8, tone=ToneCurve(0.5, 2.0, 0.3, 2.0)),
        Sampling(temperature=1.4, tone=ToneCurve(1.0, 0.0, 1.0, 0.0)),
    ],
    ids=str,
)
def test_draws_follow_the_curve(sampling: Sampling) -> None:
    row = logits(1, seed=8)[0]
    filtered = row.astype(np.float64)
    if sampling.top_k:
        filtered[np.argsort(-filtered)[sampling.top_k :]] = -np.inf
    expected = probabilities(reference(filtered, sampling.tone, sampling.temperature))
    sampler = RowSampler([sampling] * DRAWS)
    tokens = sampler(mx.array(np.broadcast_to(row, (DRAWS, VOCABULARY))), range(DRAWS))
    seen = np.bincount(np.array(tokens), minlength=VOCABULARY) / DRAWS
    assert seen[expected == 0].sum() == 0, "a filtered token was drawn"
    assert (np.abs(seen - expected) <= 5 * np.sqrt(expected * (1 - expected) / DRAWS) + 2 / DRAWS).all()


def test_greedy_rows_beside_a_curve_stay_greedy() -> None:
    values = logits(2)
    rows = [Sampling(tone=ToneCurve(1.0, 1.0, 1.0, 5.0)), Sampling(temperature=1.0, tone=ToneCurve(1.0, 1.0, 1.0, 5.0))]
    tokens: list[int] = RowSampler(rows)(mx.array(values), [0, 0]).tolist()  # type: ignore[assignment]
    assert tokens[0] == values[0].argmax()
