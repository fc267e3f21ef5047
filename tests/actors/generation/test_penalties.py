"""Bias and penalties of many rows against a loop over each row's own tokens."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.sample_utils import make_logits_processors

from actors.generation.messages import Sampling
from actors.generation.penalties import LogitProcessors, Recent
from tests.support.penalized import penalized

VOCABULARY = 40


def logits_of(rows: int, source: np.random.Generator) -> np.ndarray:
    return source.normal(scale=3.0, size=(rows, VOCABULARY)).astype(np.float32)


def check(rows: list[Sampling], histories: list[list[int]], steps: int, seed: int) -> None:
    """Run some steps, each fed with the tokens that the step before would have picked, on the device only."""
    source = np.random.default_rng(seed)
    seen = [list(history) for history in histories]
    processors = LogitProcessors(rows, [history[:-1] for history in histories])
    inputs = mx.array([history[-1] for history in histories], dtype=mx.int32)
    for _ in range(steps):
        logits = logits_of(len(rows), source)
        result = processors(mx.array(logits), inputs)
        # Lazily: the next step is built before the picked tokens are computed.
        inputs = mx.argmax(result + mx.array(logits_of(len(rows), source)), axis=-1).astype(mx.int32)
        expected = [penalized(*row) for row in zip(logits, rows, seen, strict=True)]
        np.testing.assert_allclose(np.array(result), np.array(expected), rtol=2e-5, atol=2e-5)
        for history, token in zip(seen, inputs.tolist(), strict=True):  # type: ignore[arg-type]
            history.append(token)


TOKENS = st.integers(0, VOCABULARY - 1)
STRENGTH = st.sampled_from([0.0, 0.5, -0.75, 2.0])
WINDOW = st.sampled_from([0, 1, 2, 5, 20])
SAMPLING = st.builds(
    Sampling,
    logit_bias=st.dictionaries(TOKENS, st.floats(-100, 100, width=32), max_size=3).map(lambda b: tuple(b.items())),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.7, 2.0]),
    repetition_window=WINDOW,
    presence_penalty=STRENGTH,
    presence_window=WINDOW,
    frequency_penalty=STRENGTH,
    frequency_window=WINDOW,
)
ROWS = st.lists(
    st.tuples(st.one_of(st.just(Sampling()), SAMPLING), st.lists(TOKENS, min_size=1, max_size=30)),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, steps=st.integers(1, 8), seed=st.integers(0, 99))
def test_any_mix_of_rows_gets_what_each_row_would_get_by_definition(
    rows: list[tuple[Sampling, list[int]]], steps: int, seed: int
) -> None:
    check([sampling for sampling, _ in rows], [history for _, history in rows], steps, seed)


@pytest.mark.parametrize("window", [0, 1, 3, 7])
def test_a_window_slides_over_many_steps(window: int) -> None:
    sampling = Sampling(
        repetition_penalty=1.5,
        repetition_window=window,
        presence_penalty=0.4,
        presence_window=window,
        frequency_penalty=0.3,
        frequency_window=window,
    )
    check([sampling, Sampling(), replace(sampling, frequency_window=20)], [[1], [2, 3], [4, 5, 6] * 3], 60, seed=4)


def test_a_token_that_left_the_window_is_not_penalized_any_more() -> None:
    processors = LogitProcessors([Sampling(presence_penalty=1.0, presence_window=2)], [[5]])
    zeros = mx.zeros((1, VOCABULARY))
    penalized = []
    for token in (6, 7, 8):
        result = np.array(processors(zeros, mx.array([token], dtype=mx.int32)))[0]
        penalized.append(np.flatnonzero(result).tolist())
    assert penalized == [[5, 6], [6, 7], [7, 8]]


def test_a_window_of_zero_looks_at_the_whole_history_and_keeps_growing() -> None:
    processors = LogitProcessors([Sampling(frequency_penalty=1.0, frequency_window=0)], [[3] * 50])
    for step in range(1, 31):
        result = np.array(processors(mx.zeros((1, VOCABULARY)), mx.array([3], dtype=mx.int32)))[0]
        assert result[3] == -(50 + step)


def test_repetition_divides_likely_tokens_and_multiplies_unlikely_ones_once_a_token() -> None:
    processors = LogitProcessors([Sampling(repetition_penalty=2.0)], [[1, 1, 2, 2]])
    result = processors(mx.array([[1.0, 4.0, -4.0, 6.0]]), mx.array([1], dtype=mx.int32))
    assert result.tolist() == [[1.0, 2.0, -8.0, 6.0]]


def test_presence_counts_once_and_frequency_every_time() -> None:
    rows = [Sampling(presence_penalty=0.5), Sampling(frequency_penalty=0.5)]
    processors = LogitProcessors(rows, [[1, 1, 2], [1, 1, 2]])
    result = processors(mx.zeros((2, 4)), mx.array([1, 1], dtype=mx.int32))
    assert result.tolist() == [[0.0, -0.5, -0.5, 0.0], [0.0, -1.5, -0.5, 0.0]]


def test_bias_comes_before_the_repetition_penalty() -> None:
    processors = LogitProcessors([Sampling(logit_bias=((1, 5.0),), repetition_penalty=2.0)], [[0]])
    result = processors(mx.array([[0.0, -1.0]]), mx.array([1], dtype=mx.int32))
    assert result.tolist() == [[0.0, 2.0]]


def test_a_prompt_of_one_token_has_an_empty_history() -> None:
    sampling = Sampling(repetition_penalty=1.5, presence_penalty=1.0, frequency_penalty=1.0, frequency_window=0)
    check([sampling, Sampling(presence_penalty=1.0)], [[7], [8]], 5, seed=1)


def test_token_zero_is_not_penalized_for_the_padding_of_shorter_rows() -> None:
    everything = Sampling(repetition_penalty=2.0, presence_penalty=1.0, frequency_penalty=1.0)
    processors = LogitProcessors([everything, everything], [[9], [9] * 15])
    result = np.array(processors(mx.ones((2, VOCABULARY)), mx.array([9, 9], dtype=mx.int32)))
    assert result[:, 0].tolist() == [1.0, 1.0]


def test_logits_are_the_very_same_array_when_no_row_asks_for_anything() -> None:
    logits = mx.zeros((2, VOCABULARY))
    processors = LogitProcessors([Sampling(), Sampling(temperature=1.0)], [[1], [2]])
    assert processors(logits, mx.array([1, 2], dtype=mx.int32)) is logits


def test_the_models_own_logits_are_left_as_they_were() -> None:
    everything = Sampling(logit_bias=((2, 9.0),), repetition_penalty=2.0, presence_penalty=1.0, frequency_penalty=1.0)
    for rows in ([everything], [everything, Sampling()]):
        logits = mx.ones((len(rows), VOCABULARY))
        processors = LogitProcessors(rows, [[1]] * len(rows))
        mx.eval(processors(logits, mx.array([3] * len(rows), dtype=mx.int32)))
        assert (np.array(logits) == 1.0).all()


def test_rows_in_half_precision_are_penalized_in_float32() -> None:
    processors = LogitProcessors([Sampling(presence_penalty=0.001)], [[1]])
    result = processors(mx.full((1, VOCABULARY), 100.0, dtype=mx.bfloat16), mx.array([2], dtype=mx.int32))
    assert result.dtype == mx.float32
    assert result[0, 1].item() == pytest.approx(99.999, abs=1e-5)


@pytest.mark.parametrize("penalty", [1e-300, 1e-40, 1e-10, 1000.0])
def test_logits_stay_finite_under_the_most_extreme_penalties(penalty: float) -> None:
    sampling = Sampling(repetition_penalty=penalty, presence_penalty=1000.0, frequency_penalty=-1000.0)
    processors = LogitProcessors([sampling], [[0, 1, 2, 3] * 4])
    result = processors(mx.array([[0.0, 30.0, -30.0, 1e-6, 5.0]]), mx.array([0], dtype=mx.int32))
    assert np.isfinite(np.array(result)).all()


@pytest.mark.parametrize("window", [1, 4, 20])
def test_one_row_gets_what_mlx_lm_gives_it(window: int) -> None:
    sampling = Sampling(
        logit_bias=((3, 2.5), (9, -40.0)),
        repetition_penalty=1.4,
        repetition_window=window,
        presence_penalty=0.6,
        presence_window=window,
        frequency_penalty=0.35,
        frequency_window=window,
    )
    theirs = make_logits_processors(dict(sampling.logit_bias), 1.4, window, 0.6, window, 0.35, window)
    source = np.random.default_rng(2)
    tokens = source.integers(0, 12, size=9).tolist()
    ours = LogitProcessors([Sampling(), sampling], [[1], tokens[:-1]])
    for _ in range(12):
        logits = logits_of(2, source)
        expected = mx.array(logits[1:])
        for process in theirs:
            expected = process(mx.array(tokens), expected)
        result = ours(mx.array(logits), mx.array([1, tokens[-1]], dtype=mx.int32))
        np.testing.assert_allclose(np.array(result[1]), np.array(expected[0]), rtol=1e-6, atol=1e-6)
        assert (np.array(result[0]) == logits[0]).all()
        tokens.append(int(source.integers(0, 12)))


def test_recent_tokens_are_cut_to_the_widest_window() -> None:
    recent = Recent([[1, 2, 3, 4, 5], [6]], [2, 3])
    for token in range(10):
        recent.push(mx.array([token, token + 20], dtype=mx.int32))
    tokens, inside = recent.inside()
    assert tokens.tolist() == [[7, 8, 9], [27, 28, 29]]
    assert inside.tolist() == [[False, True, True], [True, True, True]]
