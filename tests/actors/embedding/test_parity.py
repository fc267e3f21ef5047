"""Vectors against torch, by the same weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
import torch
from mlx.utils import tree_flatten
from mlx_lm.models import qwen3
from transformers import AutoModel, AutoTokenizer

from actors.embedding.encoder import Encoder
from actors.embedding.loading import load
from actors.embedding.pooling import Floats, unit
from actors.errors import StartError
from actors.models.embedding_card import EmbeddingCard, read_embedding_card
from tests.support import embedders

ROWS = [[5, 9, 200, 31], list(range(3, 40)), [77], [9, 9, 9, 9, 9, 9, 9, 12]]
TINY = {
    "qwen3": embedders.tiny_qwen3,
    "bert": embedders.tiny_bert,
    "roberta": embedders.tiny_roberta,
    "distilbert": embedders.tiny_distilbert,
}


def embedded(encoder: Encoder, rows: Sequence[Sequence[int]], chunk: int = 1000) -> Floats:
    """Unit vectors of rows computed together."""
    passes = encoder.passes(rows, chunk)
    while True:
        try:
            next(passes)
        except StopIteration as end:
            return unit(end.value, end.value.shape[1])


def by_torch(path: Path, rows: Sequence[Sequence[int]], pooling: str) -> Floats:
    """The same, one row at a time."""
    model: Any = AutoModel.from_pretrained(str(path)).eval()
    vectors: list[Any] = []
    with torch.no_grad():
        for row in rows:
            hidden = model(input_ids=torch.tensor([list(row)])).last_hidden_state[0]
            vector = {"last": hidden[-1], "cls": hidden[0], "mean": hidden.mean(0)}[pooling]
            vectors.append((vector / vector.norm()).numpy())
    return np.stack(vectors)


@pytest.fixture(params=TINY)
def tiny(request: pytest.FixtureRequest, tmp_path: Path) -> EmbeddingCard:
    make: Callable[[Path], Path] = TINY[request.param]
    return read_embedding_card(make(tmp_path), "tiny")


def test_a_tiny_model_of_each_family_equals_torch(tiny: EmbeddingCard) -> None:
    vectors = embedded(load(tiny, "float32").encoder, ROWS)
    expected = by_torch(tiny.model.path, ROWS, tiny.pooling)
    assert np.abs(expected[0] - expected[1]).max() > 0.01, "the texts should differ"
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_a_batch_equals_its_texts_alone(tiny: EmbeddingCard) -> None:
    encoder = load(tiny, "float32").encoder
    together = embedded(encoder, ROWS)
    for row, vector in zip(ROWS, together, strict=True):
        np.testing.assert_allclose(embedded(encoder, [row])[0], vector, atol=1e-5)


@pytest.mark.parametrize("pooling", ["lasttoken", "mean", "cls"])
def test_a_long_text_in_chunks_equals_the_same_in_one_pass(tmp_path: Path, pooling: str) -> None:
    folder = embedders.tiny_qwen3(tmp_path)
    embedders.sentence_files(folder, {"pooling_mode": pooling})
    card = read_embedding_card(folder, "tiny")
    encoder = load(card, "float32").encoder
    whole = embedded(encoder, ROWS)
    np.testing.assert_allclose(embedded(encoder, ROWS, chunk=5), whole, atol=1e-5)
    np.testing.assert_allclose(whole, by_torch(folder, ROWS, card.pooling), atol=1e-5)


def test_a_real_encoder_equals_torch() -> None:
    path = embedders.minilm()
    card = read_embedding_card(path, embedders.MINILM)
    tokenizer: Any = AutoTokenizer.from_pretrained(str(path))
    texts = ["the cat sat on the mat", "a kitten by the window", "Revenue rose by four percent. " * 20, "Ω"]
    rows = [tokenizer(text)["input_ids"] for text in texts]
    vectors = embedded(load(card, "float32").encoder, rows)
    np.testing.assert_allclose(vectors, by_torch(path, rows, "mean"), atol=1e-5)
    cats, kitten, revenue, _ = vectors
    assert cats @ kitten > cats @ revenue + 0.2


def test_weights_that_do_not_fit_are_refused_in_one_sentence(tmp_path: Path) -> None:
    folder = embedders.tiny_bert(tmp_path)
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"num_hidden_layers": 2', '"num_hidden_layers": 3'))
    with pytest.raises(StartError, match="cannot be loaded") as refused:
        load(read_embedding_card(folder, "tiny"), "float32")
    assert "\n" not in refused.value.message


def _quantized(source: Path, folder: Path) -> Path:
    """The same model as mlx-lm would have quantized it: 8 bits, names with `model.`, and a head nobody needs."""
    config = json.loads((source / "config.json").read_text())
    model = qwen3.Model(qwen3.ModelArgs.from_dict(config | {"rope_theta": 10000.0, "tie_word_embeddings": False}))
    weights: dict[str, mx.array] = mx.load(str(source / "model.safetensors"))  # type: ignore[assignment]
    model.load_weights([(f"model.{name}", array) for name, array in weights.items()], strict=False)
    nn.quantize(model, group_size=32, bits=8)
    folder.mkdir()
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    quantization = {"group_size": 32, "bits": 8}
    changes = {"quantization": quantization, "architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config | changes))
    shutil.copy(source / "tokenizer.json", folder)
    return folder


def test_a_quantized_qwen3_gives_nearly_the_same_vectors(tmp_path: Path) -> None:
    source = embedders.tiny_qwen3(tmp_path / "plain")
    plain = embedded(load(read_embedding_card(source, "plain"), "float32").encoder, ROWS)
    loaded = load(read_embedding_card(_quantized(source, tmp_path / "embedding"), "embedding"), "float32")
    packed = embedded(loaded.encoder, ROWS)
    assert ((plain * packed).sum(axis=1) > 0.99).all()
    assert np.abs(plain - packed).max() > 1e-5, "nothing was quantized"
