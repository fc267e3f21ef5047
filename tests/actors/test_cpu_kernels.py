"""The CPU kernels beside the functions that they stand in for."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models import activations

from actors import cpu_kernels

pytestmark = pytest.mark.skipif(not cpu_kernels.useful(), reason="they are for MLX's Linux CPU backend")

LARGEST = float(mx.finfo(mx.float32).max)


def within(work: Callable[[], mx.array]) -> mx.array:
    """What `work` finds with the kernels."""
    cpu_kernels.activate()
    try:
        result = work()
        mx.eval(result)
    finally:
        cpu_kernels.deactivate()
    return result


def same(work: Callable[[], mx.array], rtol: float = 2e-5, atol: float = 1e-5) -> None:
    mine, theirs = within(work), work()
    assert mine.shape == theirs.shape
    assert mine.dtype == theirs.dtype
    np.testing.assert_allclose(np.array(mine), np.array(theirs), rtol=rtol, atol=atol)


def random(*shape: int, spread: float = 1.0) -> mx.array:
    return mx.random.normal(shape, scale=spread)


@contextmanager
def counted(name: str) -> Iterator[list[int]]:
    """How often a function of the kernels is called."""
    calls: list[int] = []
    original = getattr(cpu_kernels, name)

    def call(*arguments: Any) -> Any:
        calls.append(1)
        return original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_kernels, name, call)
        yield calls


def masks(batch: int, heads: int, new: int, total: int) -> dict[str, Any]:
    seen = mx.arange(total) <= mx.arange(total - new, total)[:, None]
    padded = mx.arange(total)[None, None, None] >= mx.arange(batch)[:, None, None, None]
    return {
        "none": None,
        "causal": "causal",
        "two dimensions": seen,
        "numbers": mx.where(seen, 0.0, -math.inf),
        "rows": padded & seen,
        "heads": mx.broadcast_to(padded & seen, (batch, heads, new, total)),
    }


@pytest.mark.parametrize("kind", ["none", "causal", "two dimensions", "numbers", "rows", "heads"])
@pytest.mark.parametrize(
    ("batch", "heads", "groups", "new", "total"),
    [
        (1, 9, 3, 1, 20),
        (8, 9, 3, 1, 150),
        (1, 9, 3, 40, 40),
        (2, 4, 4, 33, 90),
        (3, 8, 1, 5, 300),
        (1, 2, 2, 200, 200),
        (1, 6, 2, 7, 1100),
        (2, 4, 2, 1, 2050),
        (1, 2, 1, 3, 1024),
    ],
)
def test_attention_mixes_the_same(kind: str, batch: int, heads: int, groups: int, new: int, total: int) -> None:
    queries, keys = random(batch, heads, new, 16, spread=3), random(batch, groups, total, 16)
    values = random(batch, groups, total, 24)
    mask = masks(batch, heads, new, total)[kind]
    with counted("attention") as calls:
        same(lambda: mx.fast.scaled_dot_product_attention(queries, keys, values, scale=0.25, mask=mask))
        assert len(calls) == 1


def test_a_token_that_sees_nothing_mixes_all_alike() -> None:
    queries, keys, values = random(2, 4, 64, 16), random(2, 2, 64, 16), random(2, 2, 64, 16)
    mask = mx.arange(64)[:, None] > 10
    same(lambda: mx.fast.scaled_dot_product_attention(queries, keys, values, scale=1.0, mask=mask))


def test_what_is_not_handled_goes_to_mlx() -> None:
    queries, keys, values = random(1, 4, 8, 16), random(1, 4, 8, 16), random(1, 4, 8, 16)
    sinks = random(4)
    same(lambda: mx.fast.scaled_dot_product_attention(queries, keys, values, scale=1.0, mask=None, sinks=sinks))
    three = mx.ones((4, 8, 8), dtype=mx.bool_)
    same(lambda: mx.fast.scaled_dot_product_attention(queries, keys, values, scale=1.0, mask=three))
    half = [array.astype(mx.float16) for array in (queries, keys, values)]
    with counted("attention") as calls:
        same(lambda: mx.fast.scaled_dot_product_attention(half[0], half[1], half[2], scale=1.0), rtol=1e-2, atol=1e-2)
        assert not calls


@given(st.lists(st.floats(-LARGEST, LARGEST, width=32), min_size=1, max_size=6), st.floats(-100, 100, width=32))
def test_weights_are_those_of_a_softmax(extremes: list[float], first: float) -> None:
    scores = mx.zeros((1, 8, 64, 64)) + mx.arange(64, dtype=mx.float32) * 0.1
    scores[..., 0] = first
    scores[..., 1 : 1 + len(extremes)] = mx.array(extremes, dtype=mx.float32)
    eye = mx.broadcast_to(mx.eye(64), (1, 8, 64, 64))
    # Identity values, and queries that are one-hot of keys that hold the scores: the result is the softmax itself.
    found = within(
        lambda: mx.fast.scaled_dot_product_attention(eye, mx.zeros((1, 8, 64, 64)), eye, scale=1.0, mask=scores)
    )
    np.testing.assert_allclose(np.array(found), np.array(mx.softmax(scores, axis=-1)), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("offset", [0, 5, 4000, "rows"])
@pytest.mark.parametrize("tokens", [1, 33])
@pytest.mark.parametrize("dims", [16, 12])
@pytest.mark.parametrize("freqs", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_rotations_are_the_same(offset: Any, tokens: int, dims: int, freqs: bool, scale: float) -> None:
    array = random(3, tokens, 4, 16).transpose(0, 2, 1, 3)
    where = mx.array([0, 7, 900]) if offset == "rows" else offset
    turns = mx.array([1.5**index for index in range(dims // 2)]) if freqs else None
    base = None if freqs else 10_000.0

    def rotate() -> mx.array:
        return mx.fast.rope(array, dims, traditional=False, base=base, scale=scale, offset=where, freqs=turns)

    with counted("rope") as calls:
        # A float32 angle of 4000 is known to some 2e-4.
        same(rotate, atol=2e-3 if offset == 4000 else 1e-4)
        assert len(calls) == 1


def test_an_offset_may_be_any_integer() -> None:
    array = random(1, 2, 1, 16)
    where: Any = np.int64(3)
    same(lambda: mx.fast.rope(array, 16, traditional=False, base=1e4, scale=1.0, offset=where))


def test_positions_of_one_pass_are_not_those_of_the_next() -> None:
    array = random(1, 2, 1, 16)

    def both() -> mx.array:
        return mx.concatenate(
            [
                mx.fast.rope(array, 16, traditional=False, base=base, scale=1.0, offset=offset)
                for offset in (3, 4, 3)
                for base in (1e4, 5e5)
            ]
        )

    same(both)


def test_rotations_in_pairs_go_to_mlx() -> None:
    array = random(1, 2, 5, 16)
    same(lambda: mx.fast.rope(array, 16, traditional=True, base=1e4, scale=1.0, offset=3))


@pytest.mark.parametrize("rows", [1, 8, 16, 17])
@pytest.mark.parametrize("weighted", [True, False])
def test_norms_are_the_same(rows: int, weighted: bool) -> None:
    array, weight = random(rows, 1, 96, spread=5), random(96) if weighted else None
    with counted("rms_norm") as calls:
        same(lambda: mx.fast.rms_norm(array, weight, 1e-5))
        assert len(calls) == (rows <= cpu_kernels.FEW)


@pytest.mark.parametrize("rows", [1, 8, 64])
def test_gates_are_the_same(rows: int) -> None:
    gate, linear = random(rows, 1, 640, spread=40), random(rows, 1, 640)
    with counted("swiglu") as calls:
        same(lambda: activations.swiglu(gate, linear))
        assert len(calls) == (gate.size >= cpu_kernels.LARGE)


def test_other_threads_compute_as_before() -> None:
    queries, keys, values = random(1, 8, 64, 16), random(1, 8, 64, 16), random(1, 8, 64, 16)
    gate = random(8, 1024)

    def work() -> None:
        mx.eval(
            mx.fast.scaled_dot_product_attention(queries, keys, values, scale=1.0),
            mx.fast.rope(queries, 16, traditional=False, base=1e4, scale=1.0, offset=3),
            mx.fast.rms_norm(queries[:, :1, :1], None, 1e-5),
            activations.swiglu(gate, gate),
        )

    other = threading.Thread(target=cpu_kernels.activate)
    other.start()
    other.join()
    for name in ("attention", "rope", "rms_norm", "swiglu"):
        with counted(name) as calls:
            work()
            assert not calls
            within(lambda: mx.array(work() is None))
            assert calls


def test_more_shapes_than_are_kept_compiled() -> None:
    for width in range(cpu_kernels.LARGE, cpu_kernels.LARGE + cpu_kernels.SHAPES + 3):
        gate = random(1, width)
        same(lambda gate=gate: activations.swiglu(gate, gate))
    gate = random(1, cpu_kernels.LARGE)
    same(lambda: activations.swiglu(gate, gate))


def test_offsets_of_another_step_turn_otherwise() -> None:
    array, first = random(2, 3, 1, 8), mx.array([3, 7])

    def turned(offsets: mx.array) -> mx.array:
        return mx.fast.rope(array, 8, traditional=False, base=1e4, scale=1.0, offset=offsets)

    for offsets in (first, first + 1, mx.array([3, 7])):
        same(lambda offsets=offsets: turned(offsets))
