"""Faster operations for MLX's Linux CPU backend, in float32, for the threads that ask for them.

That backend computes exponentials one by one (some 20 ns each) and spends some 10 us on starting any operation, so a
softmax or a rotary embedding made of many small ones costs more than the matrix products around it. Here exponentials
are polynomials over whole arrays, query heads that share a key head are rows of one product, and rotations are fused.

mlx-lm's models call these functions by module, so they are replaced there, once a process. What is replaced does as
before in every thread that did not `activate`, and for every argument that is not float32.
"""

from __future__ import annotations

import math
import operator
import sys
import threading
from collections.abc import Callable
from functools import cache, lru_cache, partial, reduce
from typing import Any

import mlx.core as mx
from mlx_lm.models import activations

LARGE = 4096
"""Elements from which an exponential is worth the three operations it is made of here."""

FOLDS = 32
"""Parts that a row is divided into to find its greatest number."""

LONG = 1024
"""Numbers in a row from which a matrix product sums them faster than a sum does."""

MANY = 65536
"""Scores from which fusing them for their shape is worth its time; with every step of decoding come new shapes."""

SHAPES = 64
"""Of one function that are kept compiled."""

FEW = 16
"""Rows up to which a norm is quicker in few operations; MLX's own is quicker over more."""

_LOG2_E = math.log2(math.e)
_ROUNDING = 1.5 * 2.0**23
"""Added to a float32 and taken away again, it rounds it to an integer, which shows in the low bits of the sum."""
_TWO_TO_THE = (1.0, 6.93147200e-1, 2.40226511e-1, 5.55034067e-2, 9.61803993e-3, 1.33952854e-3, 1.54653179e-4)
"""2**x for -0.5 <= x <= 0.5 as a polynomial; its relative error is 6e-9."""

_fused = partial(mx.compile, shapeless=True)
"""For any shape; every number in it counts as an operation that spreads it."""


def _fitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Fuse a function for each shape anew, which takes a quarter of a millisecond and fuses twice as much."""
    # MLX knows what is compiled by the function itself, and forgets all its shapes at once: each gets its own.
    compiled = lru_cache(maxsize=SHAPES)(lambda _: mx.compile(lambda *arrays: function(*arrays)))
    return lambda *arrays: compiled(tuple(array.shape for array in arrays))(*arrays)


_here = threading.local()
_installing = threading.Lock()


def useful() -> bool:
    """Whether MLX runs on the backend that this is for. Apple's CPU backend has vector libraries of its own."""
    return sys.platform.startswith("linux") and mx.default_device() == mx.cpu


def activate() -> None:
    """Use these kernels in the calling thread from now on, where they are of use."""
    if useful():
        with _installing:
            _install()
        _here.on = True


def deactivate() -> None:
    """Use MLX's own again in the calling thread."""
    _here.on = False


def attention(
    queries: mx.array, keys: mx.array, values: mx.array, scale: float, mask: mx.array | str | None
) -> mx.array | None:
    """Softmax attention over grouped heads, or None when it is not one of the cases handled here.

    Args:
        queries: (batch, heads, new tokens, width), float32.
        keys: (batch, key heads, all tokens, width).
        values: (batch, key heads, all tokens, value width).
        scale: of the scores.
        mask: what new tokens see: `causal`, booleans, or numbers to add; of two or four dimensions.

    Returns:
        (batch, heads, new tokens, value width).
    """
    batch, heads, new, _ = queries.shape
    groups, total = keys.shape[1:3]
    if isinstance(mask, mx.array) and mask.ndim not in (2, 4):
        return None
    folded = (queries * scale).reshape(batch, groups, -1, queries.shape[-1])
    # Of earlier tokens every new one sees all, so where that is what the mask says they need none.
    past = total - new if isinstance(mask, str) and new > 1 else 0
    if past:
        parts = [
            _scores(folded, keys[..., past:, :], mask, new),
            folded @ keys[..., :past, :].swapaxes(-1, -2),
        ]
        seen = [values[..., past:, :], values[..., :past, :]]
    else:
        parts, seen = [_scores(folded, keys, mask, new)], [values]
    if sum(part.size for part in parts) < LARGE:
        weights = mx.softmax(mx.concatenate(parts[::-1], axis=-1), axis=-1)
        return (weights @ values).reshape(batch, heads, new, -1)
    greatest = reduce(mx.maximum, map(_greatest, parts))
    weights = [_joined(*(_lowered if part.size >= MANY else _shifted)(part - greatest)) for part in parts]
    mixed = reduce(operator.add, map(operator.matmul, weights, seen))
    sums = reduce(operator.add, map(_sum, weights))
    return (mixed / sums).reshape(batch, heads, new, -1)


def _scores(folded: mx.array, keys: mx.array, mask: mx.array | str | None, new: int) -> mx.array:
    """Of keys that may be hidden: (batch, groups, heads a group * new, keys)."""
    scores = folded @ keys.swapaxes(-1, -2)
    batch, groups, rows, total = shape = scores.shape
    allowed = _mask(mask, new, total, groups)
    if allowed is None:
        return scores
    scores = scores.reshape(batch, groups, rows // new, new, total)
    hidden = mx.finfo(mx.float32).min
    scores = mx.where(allowed, scores, hidden) if allowed.dtype == mx.bool_ else scores + allowed
    return scores.reshape(shape)


def _greatest(scores: mx.array) -> mx.array:
    """Along the last axis: first across columns, since a search along a row takes its numbers one by one."""
    total = scores.shape[-1]
    if total < FOLDS * FOLDS:
        return scores.max(axis=-1, keepdims=True)
    whole = total // FOLDS * FOLDS
    found = scores[..., :whole].reshape(*scores.shape[:-1], FOLDS, -1).max(axis=-2).max(axis=-1, keepdims=True)
    return found if whole == total else mx.maximum(found, scores[..., whole:].max(axis=-1, keepdims=True))


def _sum(weights: mx.array) -> mx.array:
    """Along the last axis. A product sums over a long row faster than a sum does."""
    total = weights.shape[-1]
    return weights.sum(axis=-1, keepdims=True) if total < LONG else weights @ mx.ones((total, 1))


def rope(
    array: mx.array, dims: int, base: float | None, scale: float, offset: int | mx.array, freqs: mx.array | None
) -> mx.array:
    """Rotary embedding that pairs the two halves of the first `dims` features.

    Args:
        array: (batch, heads, tokens, width), float32.
        dims: even, at most the width.
        base: of the frequencies, unless `freqs` gives them.
        scale: of the positions.
        offset: of the first token, or one for each of the batch.
        freqs: (dims / 2,)
    """
    cosines, sines = _rotations(offset, array.shape[-2], dims, base, scale, freqs)
    half = dims // 2
    parts = _rotated(array[..., :half], array[..., half:dims], cosines, sines)
    rest = (array[..., dims:],) if array.shape[-1] > dims else ()
    return mx.concatenate([*parts, *rest], axis=-1)


def rms_norm(array: mx.array, weight: mx.array | None, eps: float) -> mx.array:
    """Root-mean-square norm over the last axis, float32."""
    squares = mx.square(array).sum(axis=-1, keepdims=True)
    constants = _constants(array.shape[-1], eps)
    return _normed(array, squares, *constants) if weight is None else _weighted(array, squares, *constants, weight)


def swiglu(gate: mx.array, linear: mx.array) -> mx.array:
    """SiLU of the gate times the linear part, float32."""
    return _gated(_joined(*_negative(gate)), gate, linear)


def _mask(mask: mx.array | str | None, new: int, total: int, groups: int) -> mx.array | None:
    """A mask that broadcasts against (batch, groups, heads a group, new, total)."""
    if mask is None or (isinstance(mask, str) and new == 1):
        return None
    if isinstance(mask, str):
        return mx.arange(total - new, total)[:, None] >= mx.arange(total)
    if mask.ndim == 2:
        return mask
    heads = mask.shape[1]
    return mask[:, :, None] if heads == 1 else mask.reshape(mask.shape[0], groups, heads // groups, *mask.shape[2:])


# Exponentials: 2**y = 2**fraction * 2**integer, where the integer is added to the exponent's bits.


_LEAST = -127.0
"""The exponent's bits are all zero there, so everything below comes out as 0."""
_MOST = 126.0


def _parts(powers: mx.array) -> tuple[mx.array, mx.array]:
    """Of powers between the bounds."""
    rounded = powers + _ROUNDING
    fraction = powers - (rounded - _ROUNDING)
    square = fraction * fraction
    # In pairs, not one after the other: MLX fuses a chain of a dozen operations, not of two dozen.
    pairs = [_TWO_TO_THE[at] + _TWO_TO_THE[at + 1] * fraction for at in (0, 2, 4)]
    return pairs[0] + square * (pairs[1] + square * (pairs[2] + square * _TWO_TO_THE[6])), rounded


@_fused
def _shifted(differences: mx.array) -> tuple[mx.array, mx.array]:
    return _parts(mx.maximum(differences * _LOG2_E, _LEAST))


@_fitted
def _lowered(differences: mx.array) -> tuple[mx.array, mx.array]:
    return _parts(mx.maximum(differences * _LOG2_E, _LEAST))


@_fitted
def _negative(gate: mx.array) -> tuple[mx.array, mx.array]:
    return _parts(mx.clip(gate * -_LOG2_E, _LEAST, _MOST))


@_fused
def _added(value: mx.array, rounded: mx.array) -> mx.array:
    return value + mx.left_shift(rounded, 23)


def _joined(value: mx.array, rounded: mx.array) -> mx.array:
    return _added(value.view(mx.int32), rounded.view(mx.int32)).view(mx.float32)


@_fused
def _gated(exponential: mx.array, gate: mx.array, linear: mx.array) -> mx.array:
    return gate / (1.0 + exponential) * linear


# Rotations.


@_fused
def _turns(positions: mx.array, inverse: mx.array) -> tuple[mx.array, mx.array]:
    angles = positions * inverse
    return mx.cos(angles), mx.sin(angles)


@_fused
def _rotated(left: mx.array, right: mx.array, cosines: mx.array, sines: mx.array) -> tuple[mx.array, mx.array]:
    return left * cosines - right * sines, left * sines + right * cosines


def _rotations(
    offset: int | mx.array, tokens: int, dims: int, base: float | None, scale: float, freqs: mx.array | None
) -> tuple[mx.array, mx.array]:
    """Of consecutive positions. Every layer of a pass asks for the same ones, or at least for its keys and queries."""
    where = offset if isinstance(offset, int) else id(offset)
    key = (type(offset), where, tokens, dims, base, scale, None if freqs is None else id(freqs))
    known = getattr(_here, "rotations", None)
    if known is None or known[0] != key:
        positions = _positions(offset, tokens)
        found = _turns(positions * scale if scale != 1 else positions, _inverse(dims, base, freqs))
        # The arrays are kept with it: an id is only theirs while they live. Caches never change an offset in place.
        known = _here.rotations = (key, found, offset, freqs)
    return known[1]


def _positions(offset: int | mx.array, tokens: int) -> mx.array:
    if isinstance(offset, int):
        return mx.arange(offset, offset + tokens, dtype=mx.float32)[:, None]
    first = offset.astype(mx.float32).reshape(-1, 1, 1, 1)
    return first if tokens == 1 else first + mx.arange(tokens, dtype=mx.float32)[:, None]


def _inverse(dims: int, base: float | None, freqs: mx.array | None) -> mx.array:
    if freqs is not None:
        return 1.0 / freqs
    assert base is not None
    return mx.array(_geometric(dims, base), dtype=mx.float32)


@cache
def _geometric(dims: int, base: float) -> list[float]:
    return [math.pow(base, -2 * index / dims) for index in range(dims // 2)]


# Norms.


@_fused
def _normed(array: mx.array, squares: mx.array, width: mx.array, eps: mx.array) -> mx.array:
    return array * mx.rsqrt(squares / width + eps)


@_fused
def _weighted(array: mx.array, squares: mx.array, width: mx.array, eps: mx.array, weight: mx.array) -> mx.array:
    return array * mx.rsqrt(squares / width + eps) * weight


def _constants(width: int, eps: float) -> tuple[mx.array, mx.array]:
    return mx.array(width, dtype=mx.float32), mx.array(eps, dtype=mx.float32)


# The replacement of MLX's and mlx-lm's functions.


def _on(array: mx.array) -> bool:
    return getattr(_here, "on", False) and array.dtype == mx.float32


@cache
def _install() -> None:
    """Put the functions below in the place of theirs. Once a process."""
    _replace_attention(mx.fast.scaled_dot_product_attention)
    _replace_rope(mx.fast.rope)
    _replace_norm(mx.fast.rms_norm)
    _replace_swiglu(activations.swiglu)


def _replace_attention(original: Callable[..., mx.array]) -> None:
    def scaled_dot_product_attention(
        q: mx.array, k: mx.array, v: mx.array, *, scale: float, mask: Any = None, **more: Any
    ) -> mx.array:
        found = None
        if _on(q) and not any(value is not None for value in more.values()):
            found = attention(q, k, v, scale, mask)
        return original(q, k, v, scale=scale, mask=mask, **more) if found is None else found

    mx.fast.scaled_dot_product_attention = scaled_dot_product_attention


def _replace_rope(original: Callable[..., mx.array]) -> None:
    def rotate(
        a: mx.array,
        dims: int,
        *,
        traditional: bool,
        base: float | None,
        scale: float,
        offset: int | mx.array,
        freqs: mx.array | None = None,
        **more: Any,
    ) -> mx.array:
        if not _on(a) or a.ndim != 4 or traditional or more:
            return original(
                a, dims, traditional=traditional, base=base, scale=scale, offset=offset, freqs=freqs, **more
            )
        where = offset if isinstance(offset, mx.array) else operator.index(offset)
        return rope(a, dims, base, scale, where, freqs)

    mx.fast.rope = rotate


def _replace_norm(original: Callable[..., mx.array]) -> None:
    def norm(x: mx.array, weight: mx.array | None, eps: float, **more: Any) -> mx.array:
        if not _on(x) or more or x.size > FEW * x.shape[-1] or (weight is not None and weight.dtype != mx.float32):
            return original(x, weight, eps, **more)
        return rms_norm(x, weight, eps)

    mx.fast.rms_norm = norm


def _replace_swiglu(original: Callable[..., mx.array]) -> None:
    def gated(gate: mx.array, x: mx.array) -> mx.array:
        if not _on(gate) or x.dtype != mx.float32 or gate.size < LARGE:
            return original(gate, x)
        return swiglu(gate, x)

    # Models that are imported later find it in its own module, the others have a name of their own for it.
    activations.swiglu = gated
    for name, module in list(sys.modules.items()):
        if name.startswith("mlx_lm.models.") and getattr(module, "swiglu", None) is original:
            vars(module)["swiglu"] = gated
