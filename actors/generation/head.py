"""A model's head, which turns the last layer's output into logits.

mlx-lm's models give the logits of every token of a pass. Of a prompt only the last ones are wanted, and with a large
vocabulary those of a token cost as much as several layers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import mlx.core as mx

from actors.generation import kv

_HEADS = ("lm_head", "output")
_TIED = "as_linear"
_TOKENS = (0, 1, 2)
_TOLERANCE = 0.02
_pass = threading.local()


def last_only(model: Any) -> bool:
    """Have a model compute the logits of the last token of each pass alone. Whether it does; else it is as it was.

    Args:
        model: an mlx-lm model; its parameters stay what they are.
    """
    wanted = _logits(model)[:, -1]
    changed = [(module, type(module)) for module, _ in _heads(model)]
    for module, method in _heads(model):
        module.__class__ = _last(type(module), method)
    found = _logits(model)
    # Something else of that name, in the middle of the model, would cut what later layers need.
    if found.shape[1] == 1 and mx.abs(found[:, 0] - wanted).max() <= _TOLERANCE * mx.abs(wanted).max():
        return True
    for module, kind in changed:
        module.__class__ = kind
    return False


@contextmanager
def ends(positions: Sequence[int]) -> Iterator[None]:
    """In the block a `last_only` model gives the logits of these tokens, one a row, as each row's only ones."""
    _pass.ends = mx.array(list(positions), dtype=mx.int32)
    try:
        yield
    finally:
        _pass.ends = None


def _logits(model: Any) -> mx.array:
    return model(mx.array([_TOKENS], dtype=mx.int32), cache=kv.new(model)).astype(mx.float32)


def _heads(model: Any) -> Iterator[tuple[Any, str]]:
    """What may be the head, and the method by which it is one: a layer of its own, or the embedding used again."""
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in _HEADS:
            yield module, "__call__"
        elif hasattr(module, _TIED):
            yield module, _TIED


@cache
def _last(kind: type[Any], method: str) -> type[Any]:
    whole = getattr(kind, method)

    def last(self: Any, x: mx.array) -> mx.array:
        ends = getattr(_pass, "ends", None)
        wanted = x[..., -1:, :] if ends is None else x[mx.arange(len(ends)), ends][:, None]
        return whole(self, wanted)

    return type(kind.__name__, (kind,), {method: last})
