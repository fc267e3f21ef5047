"""From a checkpoint folder to a model in memory. Runs in the engine thread, which then owns the arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import load_model

from actors.errors import StartError, in_words
from actors.generation import head, kv, tensors
from actors.spill.catalog import Layout


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model ready to run, and what there is to know of it."""

    model: Any = field(repr=False)
    """The mlx-lm model."""
    weight_bytes: int
    """Resident bytes."""
    dtype: str
    """Type of the unquantized weights."""
    device: str
    """`gpu` or `cpu`."""
    vocabulary: int
    """Rows of the logits."""
    batchable: bool
    """Whether rows can decode together."""
    trimmable: bool
    """Whether stored prefixes can be cut at any token."""
    last_only: bool
    """Whether a pass gives the logits of its last token alone."""
    layout: Layout
    """What a prefix on the disk consists of."""
    cache_kinds: str
    """The classes of its caches, layer by layer."""


def on_gpu() -> bool:
    """Whether MLX runs on Metal or CUDA here."""
    return mx.default_device() == mx.gpu


def load(path: Path, dtype: str, trust_model_code: bool) -> Loaded:
    """Load, convert and evaluate a checkpoint, and run one token through it.

    Args:
        path: a folder that `actors.models` has approved.
        dtype: `auto`, `float32`, `bfloat16` or `float16`.
        trust_model_code: whether the checkpoint's own Python file may run.

    Raises:
        StartError: the weights do not fit the architecture, or the model does not run.
    """
    try:
        model, _ = load_model(path, lazy=True, strict=True, trust_remote_code=trust_model_code)
        wanted = wanted_dtype(dtype)
        if wanted is not None:
            model.update(tree_map(lambda array: cast(array, wanted), model.parameters()))
        mx.eval(model.parameters())
        caches = kv.new(model)
        logits = model(mx.zeros((1, 1), dtype=mx.int32), cache=caches)
        mx.eval(logits)
        alone = head.last_only(model)
    except Exception as error:
        raise StartError(f"the model in {path} cannot be loaded: {in_words(error, 400)}") from error
    flat = [array for _, array in tree_flatten(model.parameters()) if isinstance(array, mx.array)]
    floats = [array for array in flat if mx.issubdtype(array.dtype, mx.floating)]
    return Loaded(
        model=model,
        weight_bytes=sum(array.nbytes for array in flat),
        dtype=str(floats[0].dtype).removeprefix("mlx.core.") if floats else "unknown",
        device="gpu" if on_gpu() else "cpu",
        vocabulary=logits.shape[-1],
        batchable=kv.batchable(kv.new(model)),
        trimmable=kv.always_trimmable(kv.new(model)),
        last_only=alone,
        layout=tensors.layout_of(kv.new(model)),
        cache_kinds=tensors.kinds_of(kv.new(model)),
    )


def wanted_dtype(dtype: str) -> mx.Dtype | None:
    """The type that weights are converted to; None keeps the checkpoint's own."""
    if dtype == "auto":
        return None if on_gpu() else mx.float32
    return {"float32": mx.float32, "bfloat16": mx.bfloat16, "float16": mx.float16}[dtype]


def cast(array: mx.array, dtype: mx.Dtype) -> mx.array:
    """Converted, unless the array holds no floating-point numbers (packed weights, for instance)."""
    return array.astype(dtype) if mx.issubdtype(array.dtype, mx.floating) else array
