"""Caches as the arrays of records, and back. Engine thread only, except where said.

A layer whose cache is mlx-lm's `KVCache` is cut into segments of tokens; every other one is kept whole, with what
else its state consists of written down as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache

from actors.generation import kv
from actors.spill.catalog import Layout
from actors.spill.record import Tensor

_ARRAY = "@"
"""Key of a reference to an array in the JSON of a state."""

_BITS = {"bfloat16": mx.uint16}
"""Types that numpy lacks, and what holds their bits."""


def layout_of(caches: Sequence[Any]) -> Layout:
    """What prefixes of such a model consist of."""
    kinds = [type(cache) is KVCache for cache in kv.leaves(caches)]
    return Layout(segments=any(kinds), states=not all(kinds))


def kinds_of(caches: Sequence[Any]) -> str:
    """The classes of the caches, layer by layer: records of other ones are of no use."""
    return ",".join(type(cache).__name__ for cache in kv.leaves(caches))


def segment(caches: Sequence[Any], start: int, stop: int) -> Iterator[list[Tensor]]:
    """Keys and values of some tokens, layer by layer, so that the caller may pause between two."""
    for index, cache in enumerate(kv.leaves(caches)):
        if type(cache) is KVCache and cache.keys is not None and cache.values is not None:
            yield [
                _tensor(f"{index}.keys", mx.contiguous(cache.keys[..., start:stop, :])),
                _tensor(f"{index}.values", mx.contiguous(cache.values[..., start:stop, :])),
            ]


def state(leaves: Sequence[Any]) -> tuple[list[Tensor], str]:
    """Everything that is kept whole, with the structure that `thaw` needs.

    Args:
        leaves: single caches in order; those that are cut into segments, and None, are left out.
    """
    tensors: list[Tensor] = []
    found: list[dict[str, object]] = []
    for index, cache in enumerate(leaves):
        if cache is not None and type(cache) is not KVCache:
            tree = _write(cache.state, f"{index}", tensors)
            found.append({"leaf": index, "class": type(cache).__name__, "state": tree})
    return tensors, json.dumps(found)


@dataclass(frozen=True, slots=True)
class Frozen:
    """A prefix as it was read: arrays of MLX that no stream has touched yet. Made in any thread."""

    length: int
    """Tokens."""
    arrays: Mapping[str, tuple[str, mx.array]]
    """Type and bits by name."""
    state: str
    """What `state` wrote; empty for models without any."""


def freeze(length: int, tensors: Mapping[str, Tensor], state: str) -> Frozen:
    """Any thread: hand arrays over to MLX. Each is copied once."""
    arrays = {name: (tensor.dtype, mx.array(tensor.data)) for name, tensor in tensors.items()}
    return Frozen(length, arrays, state)


def thaw(model: Any, frozen: Frozen) -> kv.RowCaches:
    """Caches that hold the prefix.

    Raises:
        ValueError: the records do not fit this model.
    """
    caches = kv.new(model)
    arrays = {name: _typed(dtype, bits) for name, (dtype, bits) in frozen.arrays.items()}
    states = {entry["leaf"]: entry for entry in json.loads(frozen.state or "[]")}
    for index, cache in enumerate(kv.leaves(caches)):
        if type(cache) is KVCache:
            if (keys := arrays.get(f"{index}.keys")) is not None:
                cache.keys, cache.values, cache.offset = keys, arrays[f"{index}.values"], frozen.length
            continue
        known = states.pop(index, None)
        if known is None or known["class"] != type(cache).__name__:
            raise ValueError(f"layer {index} is a {type(cache).__name__}, not a {known and known['class']}")
        cache.state = _read(known["state"], arrays)
    if states:
        raise ValueError("there are states of more layers than the model has")
    return caches


def _tensor(name: str, array: mx.array) -> Tensor:
    dtype = str(array.dtype).removeprefix("mlx.core.")
    bits = array.view(_BITS[dtype]) if dtype in _BITS else array
    # The view of numpy keeps the array alive; nothing is copied.
    return Tensor(name, dtype, np.asarray(bits))


def _typed(dtype: str, bits: mx.array) -> mx.array:
    return bits.view(getattr(mx, dtype)) if dtype in _BITS else bits


def _write(value: Any, name: str, tensors: list[Tensor]) -> Any:
    if isinstance(value, mx.array):
        tensors.append(_tensor(name, mx.contiguous(value)))
        return {_ARRAY: name}
    if isinstance(value, list | tuple):
        return [_write(part, f"{name}.{place}", tensors) for place, part in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"a {type(value).__name__} in the state of a cache cannot be kept")


def _read(value: Any, arrays: Mapping[str, mx.array]) -> Any:
    if isinstance(value, dict):
        return arrays[value[_ARRAY]]
    return [_read(part, arrays) for part in value] if isinstance(value, list) else value
