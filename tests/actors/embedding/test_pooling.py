"""Weights of positions, and vectors of length 1."""

from __future__ import annotations

import numpy as np
import pytest

from actors.embedding.pooling import position_weights, unit
from actors.models.embedding_card import Pooling


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("last", [[0, 1, 0], [0, 0, 1]]),
        ("cls", [[1, 0, 0], [1, 0, 0]]),
        ("mean", [[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]]),
    ],
)
def test_each_row_counts_its_own_positions_and_no_padding(pooling: Pooling, expected: list[list[float]]) -> None:
    np.testing.assert_allclose(position_weights([2, 3], 3, pooling), expected, rtol=1e-6)


def test_a_shortened_vector_has_length_1_again() -> None:
    cut = unit(np.array([[3, 4, 12]], dtype=np.float32), 2)
    np.testing.assert_allclose(cut, [[0.6, 0.8]], rtol=1e-6)


def test_zeros_stay_zeros() -> None:
    assert not unit(np.zeros((1, 4), dtype=np.float32), 3).any()


def test_large_numbers_do_not_overflow() -> None:
    np.testing.assert_allclose(unit(np.array([[3e38, 3e38]], dtype=np.float32), 2), [[0.70710677] * 2])
