"""From a Whisper checkpoint's folder to a model in memory. Runs in the engine thread, which then owns the arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map, tree_unflatten
from mlx_whisper.whisper import ModelDimensions, Whisper

from actors.errors import StartError
from actors.generation.loading import cast, on_gpu
from actors.models.whisper_card import WhisperCard


@dataclass(frozen=True, slots=True)
class LoadedWhisper:
    """A model ready to run."""

    model: Any = field(repr=False)
    """mlx-whisper's model."""
    dtype: Any
    """Type of its numbers, and of the spectrograms it takes."""
    weight_bytes: int
    """Resident bytes."""


def load(card: WhisperCard, dtype: str) -> LoadedWhisper:
    """Load, convert and evaluate a checkpoint.

    Args:
        card: of a folder that was checked.
        dtype: `auto` (float16 on a GPU, float32 on a CPU), `float32`, `bfloat16` or `float16`.

    Raises:
        StartError: the weights do not fit the architecture.
    """
    wanted = _wanted(dtype)
    try:
        model = Whisper(ModelDimensions(**card.sizes), wanted)
        weights: Any = mx.load(str(card.weights))
        if card.quantization is not None:
            nn.quantize(
                model,
                **card.quantization,
                class_predicate=lambda path, layer: (
                    isinstance(layer, nn.Linear | nn.Embedding) and f"{path}.scales" in weights
                ),
            )
        _check(model, weights)
        model.update(tree_unflatten(list(weights.items())))
        model.update(tree_map(lambda array: cast(array, wanted), model.parameters()))
        mx.eval(model.parameters(), model.encoder._positional_embedding)
    except Exception as error:
        words = " ".join((str(error).strip() or type(error).__name__).split())[:400]
        raise StartError(f"the speech model in {card.path} cannot be loaded: {words}") from error
    return LoadedWhisper(model, wanted, sum(array.nbytes for _, array in _flat(model)))


def _flat(model: Any) -> list[tuple[str, Any]]:
    return list(tree_flatten(model.parameters()))  # type: ignore[arg-type]


def _wanted(dtype: str) -> mx.Dtype:
    if dtype == "auto":
        return mx.float16 if on_gpu() else mx.float32
    return {"float32": mx.float32, "bfloat16": mx.bfloat16, "float16": mx.float16}[dtype]


def _check(model: Any, weights: dict[str, mx.array]) -> None:
    """mlx takes whatever it is given; a missing array would be noise."""
    expected: dict[str, Any] = {name: array.shape for name, array in _flat(model) if name != "alignment_heads"}
    for name, shape in expected.items():
        if name not in weights:
            raise ValueError(f"it lacks {name}")
        if weights[name].shape != shape:
            raise ValueError(f"{name} has the shape {weights[name].shape} where {shape} is expected")
