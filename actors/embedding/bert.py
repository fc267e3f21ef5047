"""BERT and its relatives (RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT) as an MLX module, hidden states only."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from actors.models.embedding_card import first_position

_ACTIVATIONS: dict[str, Callable[[mx.array], mx.array]] = {
    "gelu": nn.gelu,
    "gelu_new": nn.gelu_approx,
    "gelu_pytorch_tanh": nn.gelu_approx,
    "relu": nn.relu,
    "silu": nn.silu,
}

# Where the checkpoints of transformers keep what; DistilBERT has names of its own.
_PLACES = (
    (r"embeddings\.word_embeddings\.", "words."),
    (r"embeddings\.position_embeddings\.", "positions."),
    (r"embeddings\.token_type_embeddings\.", "kinds."),
    (r"embeddings\.LayerNorm\.", "norm."),
    (r"(?:encoder|transformer)\.layer\.", "layers."),
    (r"attention\.self\.(query|key|value)\.", r"\1."),
    (r"attention\.output\.dense\.", "mixed."),
    (r"attention\.output\.LayerNorm\.", "mixed_norm."),
    (r"intermediate\.dense\.", "inner."),
    (r"output\.dense\.", "outer."),
    (r"output\.LayerNorm\.", "outer_norm."),
    (r"attention\.q_lin\.", "query."),
    (r"attention\.k_lin\.", "key."),
    (r"attention\.v_lin\.", "value."),
    (r"attention\.out_lin\.", "mixed."),
    (r"sa_layer_norm\.", "mixed_norm."),
    (r"ffn\.lin1\.", "inner."),
    (r"ffn\.lin2\.", "outer."),
    (r"output_layer_norm\.", "outer_norm."),
    (r"\.gamma$", ".weight"),
    (r"\.beta$", ".bias"),
)
_PREFIX = re.compile(r"^(?:bert|roberta|distilbert|camembert|model)\.")
_UNUSED = re.compile(r"^(?:pooler|cls|lm_head|classifier|vocab_)|position_ids$|token_type_ids$")


@dataclass(frozen=True, slots=True)
class BertShape:
    """The numbers of an encoder."""

    layers: int
    heads: int
    hidden: int
    inner: int
    """Width of the feed-forward layers."""
    vocabulary: int
    positions: int
    """Rows of the table of positions."""
    first_position: int
    """Row of the first token's."""
    kinds: int
    """Segment kinds; 0 when the model has none. Texts are of the first one."""
    epsilon: float
    activation: str


def shape_of(config: Mapping[str, Any]) -> BertShape:
    """From config.json. Raises KeyError or ValueError for one that does not describe such a model."""
    distilled = config.get("model_type") == "distilbert"
    activation = str(config.get("activation" if distilled else "hidden_act", "gelu"))
    if activation not in _ACTIVATIONS:
        raise ValueError(f"its activation {activation!r} is not one of {', '.join(_ACTIVATIONS)}")
    return BertShape(
        layers=config["n_layers" if distilled else "num_hidden_layers"],
        heads=config["n_heads" if distilled else "num_attention_heads"],
        hidden=config["dim" if distilled else "hidden_size"],
        inner=config["hidden_dim" if distilled else "intermediate_size"],
        vocabulary=config["vocab_size"],
        positions=config["max_position_embeddings"],
        first_position=first_position(config),
        kinds=0 if distilled else config.get("type_vocab_size", 2),
        epsilon=config.get("layer_norm_eps", 1e-12),
        activation=activation,
    )


def renamed(weights: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Weights of a checkpoint under the names of `Bert`; heads and poolers are left out."""
    found: dict[str, mx.array] = {}
    for name, array in weights.items():
        name = _PREFIX.sub("", name)
        if _UNUSED.search(name):
            continue
        for pattern, place in _PLACES:
            name = re.sub(pattern, place, name)
        found[name] = array
    return found


class Bert(nn.Module):
    """(rows, width) token ids, and a mask of the same shape that is false on padding, to (rows, width, hidden)."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = nn.Embedding(shape.positions, shape.hidden)
        if shape.kinds:
            self.kinds = nn.Embedding(shape.kinds, shape.hidden)
        self.norm = nn.LayerNorm(shape.hidden, eps=shape.epsilon)
        self.layers = [Layer(shape) for _ in range(shape.layers)]
        self._first_position = shape.first_position
        self._kinds = shape.kinds

    def __call__(self, tokens: mx.array, mask: mx.array | None) -> mx.array:
        first = self._first_position
        hidden = self.words(tokens) + self.positions.weight[first : first + tokens.shape[1]]
        if self._kinds:
            hidden = hidden + self.kinds.weight[0]
        hidden = self.norm(hidden)
        visible = None if mask is None else mask[:, None, None, :]
        for layer in self.layers:
            hidden = layer(hidden, visible)
        return hidden


class Layer(nn.Module):
    """Attention and feed-forward, each with its norm behind it."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.query = nn.Linear(shape.hidden, shape.hidden)
        self.key = nn.Linear(shape.hidden, shape.hidden)
        self.value = nn.Linear(shape.hidden, shape.hidden)
        self.mixed = nn.Linear(shape.hidden, shape.hidden)
        self.mixed_norm = nn.LayerNorm(shape.hidden, eps=shape.epsilon)
        self.inner = nn.Linear(shape.hidden, shape.inner)
        self.outer = nn.Linear(shape.inner, shape.hidden)
        self.outer_norm = nn.LayerNorm(shape.hidden, eps=shape.epsilon)
        self._heads = shape.heads
        self._activation = _ACTIVATIONS[shape.activation]

    def __call__(self, hidden: mx.array, visible: mx.array | None) -> mx.array:
        hidden = self.mixed_norm(hidden + self._attend(hidden, visible))
        return self.outer_norm(hidden + self.outer(self._activation(self.inner(hidden))))

    def _attend(self, hidden: mx.array, visible: mx.array | None) -> mx.array:
        query, key, value = (self._split(part(hidden)) for part in (self.query, self.key, self.value))
        scale = query.shape[-1] ** -0.5
        mixed = mx.fast.scaled_dot_product_attention(query, key, value, scale=scale, mask=visible)
        return self.mixed(mixed.transpose(0, 2, 1, 3).flatten(2))

    def _split(self, array: mx.array) -> mx.array:
        """(rows, width, hidden) to (rows, heads, width, part)."""
        return mx.unflatten(array, -1, (self._heads, -1)).transpose(0, 2, 1, 3)
