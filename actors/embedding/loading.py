"""From an embedding model's folder to an encoder in memory. Runs in the engine thread, which then owns the arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models import qwen3
from mlx_lm.utils import load_model

from actors.embedding.bert import Bert, renamed, shape_of
from actors.embedding.encoder import BidirectionalEncoder, DecoderEncoder, Encoder
from actors.errors import StartError
from actors.generation.loading import cast, wanted_dtype
from actors.models.card import json_object
from actors.models.embedding_card import EmbeddingCard
from actors.models.weights import weight_files


@dataclass(frozen=True, slots=True)
class LoadedEncoder:
    """An encoder ready to run."""

    encoder: Encoder = field(repr=False)
    """The model."""
    weight_bytes: int
    """Resident bytes."""


class _Headless(qwen3.Model):
    """mlx-lm's Qwen3 for checkpoints of the bare model too, whose names lack `model.`; a head is left out."""

    def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        kept = {name: array for name, array in weights.items() if not name.startswith("lm_head.")}
        return {name if name.startswith("model.") else f"model.{name}": array for name, array in kept.items()}


def load(card: EmbeddingCard, dtype: str) -> LoadedEncoder:
    """Load, convert and evaluate a checkpoint, and run one token through it.

    Args:
        card: of a folder that was checked.
        dtype: `auto`, `float32`, `bfloat16` or `float16`.

    Raises:
        StartError: the weights do not fit the architecture, or the model does not run.
    """
    path = card.model.path
    try:
        model = _decoder(path) if card.causal else _encoder(path)
        wanted = wanted_dtype(dtype)
        if wanted is not None:
            model.update(tree_map(lambda array: cast(array, wanted), model.parameters()))
        mx.eval(model.parameters())
        encoder = (DecoderEncoder if card.causal else BidirectionalEncoder)(model, card.pooling)
        for _ in encoder.passes([[0]], 1):
            pass
    except Exception as error:
        words = " ".join((str(error).strip() or type(error).__name__).split())[:400]
        raise StartError(f"the embedding model in {path} cannot be loaded: {words}") from error
    arrays = [array for _, array in tree_flatten(model.parameters()) if isinstance(array, mx.array)]
    return LoadedEncoder(encoder, sum(array.nbytes for array in arrays))


def _decoder(path: Path) -> Any:
    model, _ = load_model(
        path,
        lazy=True,
        strict=True,
        model_config={"tie_word_embeddings": True, **_rope(path)},
        get_model_classes=lambda config: (_Headless, qwen3.ModelArgs),
    )
    return model


def _rope(path: Path) -> dict[str, Any]:
    """What newer checkpoints say of rotary positions, in the words mlx-lm reads."""
    config = json_object(path / "config.json")
    stated = config.get("rope_parameters")
    if "rope_theta" in config or not isinstance(stated, dict):
        return {}
    scaling = None if stated.get("rope_type", "default") == "default" else stated
    return {"rope_theta": stated["rope_theta"], "rope_scaling": scaling}


def _encoder(path: Path) -> Bert:
    model = Bert(shape_of(json_object(path / "config.json")))
    weights: dict[str, mx.array] = {}
    for file in weight_files(path):
        weights.update(mx.load(str(file.path)))  # type: ignore[arg-type]
    model.load_weights(list(renamed(weights).items()), strict=True)
    model.eval()
    return model
