"""What the scheduler does to mlx-lm's caches: make, merge, cut, copy and count them.

A `RowCaches` belongs to one row: one cache object a layer, batch size one. A `BatchCaches` holds several rows, as
made by the cache classes' own `merge`. Every function here belongs to the engine thread.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache, make_prompt_cache

RowCaches = list[Any]
BatchCaches = list[Any]

States = list[Any]
"""What `states` keeps of a row: one cache object a leaf, None for a leaf that can be cut at any length."""


def new(model: Any) -> RowCaches:
    """Empty caches for one row."""
    return make_prompt_cache(model)


def leaves(caches: Sequence[Any]) -> Iterator[Any]:
    """The single caches, with nested lists opened."""
    for cache in caches:
        if isinstance(cache, CacheList):
            yield from leaves(cache.caches)
        else:
            yield cache


def batchable(caches: RowCaches) -> bool:
    """Whether rows with such caches can be decoded together."""
    needed = ("merge", "prepare", "finalize", "filter", "extend", "extract")
    kinds = {type(cache) for cache in leaves(caches)}
    return all(hasattr(kind, "merge") and _batched_has(kind, needed[1:]) for kind in kinds)


def _batched_has(kind: type[Any], names: Sequence[str]) -> bool:
    batched = type(kind.merge([_empty(kind)])) if kind.__name__ != "ArraysCache" else kind
    return all(hasattr(batched, name) for name in names)


def _empty(kind: type[Any]) -> Any:
    return kind(max_size=1) if kind.__name__ == "RotatingKVCache" else kind()


def trimmable(caches: RowCaches) -> bool:
    """Whether a shorter prefix can be cut from these caches as they are now."""
    return all(cache.is_trimmable() for cache in caches)


def always_trimmable(caches: RowCaches) -> bool:
    """Whether every such cache can be cut at any length: full attention only."""
    return all(_cuttable(cache) for cache in leaves(caches))


def _cuttable(cache: Any) -> bool:
    return type(cache) is KVCache


def merge(rows: Sequence[RowCaches]) -> BatchCaches:
    """One batch from the caches of several rows; their arrays are copied."""
    return [layer[0].merge(list(layer)) for layer in zip(*rows, strict=True)]


def padded(parts: Sequence[list[int]]) -> list[list[int]]:
    """Tokens of several rows for one pass, filled up on the right."""
    longest = max(len(part) for part in parts)
    return [part + [0] * (longest - len(part)) for part in parts]


@contextmanager
def ending(caches: Sequence[Any], lengths: Sequence[int]) -> Iterator[None]:
    """The block is a pass over several rows, `padded` to the longest; the caches then hold nothing of the filling.

    Args:
        caches: a batch; of a lone row, whatever they are.
        lengths: tokens of each row.
    """
    fill = [max(lengths) - length for length in lengths]
    if not any(fill):
        yield
        return
    for cache in caches:
        cache.prepare(lengths=list(lengths), right_padding=fill)
    yield
    for cache in caches:
        cache.finalize()


def row_of(caches: BatchCaches, index: int, merged: bool) -> RowCaches:
    """One row's caches out of a batch; of a lone row (`merged` False), the caches as they are."""
    return [cache.extract(index) for cache in caches] if merged else caches


def arrays(caches: Sequence[Any]) -> list[mx.array]:
    """Every array of the caches."""
    flat = tree_flatten([cache.state for cache in caches])
    return [value for _, value in flat if isinstance(value, mx.array)]


def size(caches: Sequence[Any]) -> int:
    """Resident bytes, padding included."""
    return sum(array.nbytes for array in arrays(caches))


def exact(caches: RowCaches) -> RowCaches:
    """Copies of one row's caches without the padding that growing leaves behind; evaluated.

    The copies share nothing with the originals that a later step could write to.
    """
    copies = copy.deepcopy(list(caches))
    for cache in leaves(copies):
        _tighten(cache)
    mx.eval(arrays(copies))
    return copies


def states(caches: RowCaches) -> States:
    """What has to be kept of one row's caches so that they can be cut at their present length later; evaluated.

    Nothing of what is cuttable anyway is copied.
    """
    kept = [None if _cuttable(cache) else copy.deepcopy(cache) for cache in leaves(caches)]
    whole = [cache for cache in kept if cache is not None]
    for cache in whole:
        _tighten(cache)
    mx.eval(arrays(whole))
    return kept


def states_size(kept: States) -> int:
    """Bytes of kept states."""
    return size([cache for cache in kept if cache is not None])


def _tighten(cache: Any) -> None:
    """Let go of padding and of what has left the window; the rest is copied only if something goes."""
    if isinstance(cache, ArraysCache):
        cache.cache = [None if array is None else mx.contiguous(array) for array in cache.cache]
        return
    keys, values = getattr(cache, "keys", None), getattr(cache, "values", None)
    if not isinstance(keys, mx.array) or not isinstance(values, mx.array):
        return
    held, offset = keys.shape[2], getattr(cache, "offset", keys.shape[2])
    first, last = 0, min(held, offset)
    if isinstance(cache, RotatingKVCache) and cache.keep == 0 and cache._idx == held > cache.max_size:
        # A long chunk leaves more than the window behind, in order of time.
        first, cache._idx = held - cache.max_size, cache.max_size
    if first > 0 or last < held:
        cache.keys = mx.contiguous(keys[..., first:last, :])
        cache.values = mx.contiguous(values[..., first:last, :])


def prefix(caches: RowCaches, length: int, stored: int, kept: States | None = None) -> RowCaches:
    """Caches that hold the first `length` of the `stored` tokens; no copy until the row appends.

    Args:
        kept: what `states` gave at that length; None where the caches can be cut without it.

    Raises:
        ValueError: the caches cannot be cut there.
    """
    copies = copy.deepcopy(list(caches))
    excess = stored - length
    if excess == 0:
        return copies
    if kept is None and not trimmable(copies):
        raise ValueError("these caches cannot be cut")
    parts = list(leaves(copies))
    for cache, state in zip(parts, kept or [None] * len(parts), strict=True):
        if state is not None:
            vars(cache).update(vars(copy.deepcopy(state)))
        elif _cuttable(cache) and cache.keys is not None and cache.values is not None:
            cache.keys = cache.keys[..., :length, :]
            cache.values = cache.values[..., :length, :]
            cache.offset = length
        elif cache.trim(excess) != excess:
            raise ValueError(f"{type(cache).__name__} cannot be cut by {excess} tokens")
    return copies
