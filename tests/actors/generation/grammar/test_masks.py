from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from actors.generation.grammar import masks
from actors.generation.grammar.masks import Masks


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("vocabulary", [1, 31, 32, 257, 49152])
def test_forbidden_tokens_have_minus_infinity_and_others_keep_their_logit(dtype: mx.Dtype, vocabulary: int) -> None:
    random = np.random.default_rng(vocabulary)
    bits = random.integers(0, 2, (3, vocabulary), dtype=np.uint8)
    rows = Masks(vocabulary).start(3)
    padded = np.zeros((3, rows.shape[1] * 32), dtype=np.uint8)
    padded[:, :vocabulary] = bits
    rows[:] = np.packbits(padded, axis=1, bitorder="little").view(np.int32)
    logits = mx.array(random.normal(size=(3, vocabulary))).astype(dtype)
    applied = masks.apply(logits, rows)
    assert applied.dtype == dtype
    expected = np.where(bits, np.array(logits.astype(mx.float32)), -np.inf)
    assert np.array_equal(np.array(applied.astype(mx.float32)), expected)


def test_rows_that_nobody_fills_are_unconstrained_every_step() -> None:
    made = Masks(100)
    made.start(2)[0] = 0
    logits = mx.ones((4, 100))
    assert mx.array_equal(masks.apply(logits, made.start(4)), logits).item()
    made.start(4)[:] = 0
    assert mx.array_equal(masks.apply(logits[:1], made.start(1)), logits[:1]).item()


def test_a_mask_is_taken_when_it_is_applied() -> None:
    made = Masks(64)
    bits = made.start(1)
    applied = masks.apply(mx.zeros((1, 64)), bits)
    bits[:] = 0
    assert mx.all(applied == 0).item()
