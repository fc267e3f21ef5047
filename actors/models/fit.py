"""Whether a model fits into a machine, for how long a context, and about how fast it will be there. Pure.

An estimate before anything is loaded: bytes of weights, caches and scratch against what may be used, and the bytes that
one token moves against the machine's bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from actors.models.layers import Layers

USABLE_SHARE = 0.75
"""Of the RAM, where nobody set a budget."""
PREFILL_CHUNK = 2048
"""Prompt tokens that are computed at once."""
UNKNOWN_WINDOW = 131_072
"""Context that is tried at most for a model that does not name its own."""

_SCRATCH_PER_TOKEN = 0.55e6
_FUSED = frozenset({64, 72, 80, 96, 128})
"""Head sizes that have a kernel which never writes the scores down."""
_VECTOR_QUERIES = 8
"""So few queries take another kernel, which does not either."""
_DENSE, _MIXTURE = 0.82, 0.76
"""Shares of the bandwidth that decoding reaches."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be fitted."""

    layers: Layers
    """The model's layers."""
    weight_bytes: int
    """Of all weights."""
    expert_bytes: int = 0
    """Of these, experts that compete for each token."""
    value_bytes: float = 2.0
    """Of one number in a cache; `quantized` for quantized ones."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How a model stands at one length of context. Sizes in bytes."""

    fits: bool
    """Whether everything together stays within what is usable."""
    weights: int
    """Weights."""
    kv: int
    """Caches of one sequence."""
    transient: int
    """Scratch memory while a prompt is computed."""
    usable: int
    """What may be used."""
    max_context: int
    """Longest context that fits; 0 when none does."""
    decode_tps: float
    """Tokens a second of one sequence, estimated."""

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.transient


def quantized(bits: int, group: int) -> float:
    """Bytes of one cached number with a scale and a bias a group."""
    return bits / 8 + 4 / group


def usable_bytes(ram: int, budget: int | None) -> int:
    """What models may take of a machine's RAM."""
    return int(ram * USABLE_SHARE) if budget is None else budget


def assess(load: Load, usable: int, bandwidth: float, context: int) -> Fit:
    """How a model stands with `context` tokens.

    Args:
        load: the model.
        usable: bytes that may be used.
        bandwidth: of the memory, in GB/s.
        context: tokens.
    """
    kv, scratch = kv_bytes(load, context), transient_bytes(load, context)
    return Fit(
        fits=load.weight_bytes + kv + scratch <= usable,
        weights=load.weight_bytes,
        kv=kv,
        transient=scratch,
        usable=usable,
        max_context=max_context(load, usable),
        decode_tps=decode_tps(load, bandwidth, context),
    )


def kv_bytes(load: Load, context: int) -> int:
    """Caches of one sequence of `context` tokens."""
    layers = load.layers
    kept = sum(layer.values * min(context, layer.window or context) for layer in layers.attention)
    return int(kept * load.value_bytes) + sum(layer.size for layer in layers.recurrent)


def transient_bytes(load: Load, context: int) -> int:
    """Scratch memory of one prompt chunk at the end of `context` tokens."""
    queries = min(PREFILL_CHUNK, context)
    scores = [
        layer.heads * queries * min(context, layer.window or context) * 2
        for layer in load.layers.attention
        if layer.head_dim not in _FUSED and queries > _VECTOR_QUERIES
    ]
    return int(queries * _SCRATCH_PER_TOKEN) + max(scores, default=0)


def max_context(load: Load, usable: int) -> int:
    """Longest context that fits, by bisection; the model's own window at most."""

    def fits(context: int) -> bool:
        return load.weight_bytes + kv_bytes(load, context) + transient_bytes(load, context) <= usable

    low, high = 0, load.layers.context_window or UNKNOWN_WINDOW
    if fits(high):
        return high
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def decode_tps(load: Load, bandwidth: float, context: int) -> float:
    """Estimated tokens a second of one sequence behind `context` tokens."""
    layers = load.layers
    idle = load.expert_bytes * (1 - layers.experts_per_token / layers.experts) if layers.experts else 0.0
    moved = load.weight_bytes - idle + kv_bytes(load, context)
    share = _MIXTURE if layers.experts else _DENSE
    return bandwidth * 1e9 / moved * share if moved > 0 else 0.0


def in_half_precision(load: Load, weight_bytes: int) -> Load:
    """The same model as a machine with a GPU would hold it: weights as stored, caches in two bytes a number."""
    return replace(load, weight_bytes=weight_bytes, value_bytes=2.0)
