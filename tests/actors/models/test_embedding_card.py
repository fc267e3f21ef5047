"""What the files of an embedding model are read as."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.errors import StartError
from actors.models.embedding_card import is_embedding_model, read_embedding_card
from actors.models.lineup import line_up
from actors.settings import parse
from tests.support import checkpoints, embedders


def change(folder: Path, **values: Any) -> None:
    """Overwrite fields of config.json."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return embedders.tiny_bert(tmp_path / "bert")


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    return embedders.tiny_qwen3(tmp_path / "qwen")


def test_a_bare_encoder_takes_the_mean_of_all_its_positions(bert: Path) -> None:
    card = read_embedding_card(bert, "tiny")
    assert (card.pooling, card.max_tokens, card.dimensions, card.vocabulary) == ("mean", 66, 64, 257)
    assert not card.causal
    assert not card.instructs


def test_a_bare_qwen3_takes_the_last_position_and_instructions(qwen: Path) -> None:
    card = read_embedding_card(qwen, "tiny")
    assert (card.pooling, card.max_tokens, card.dimensions) == ("last", 4096, 64)
    assert card.causal
    assert card.instructs


def test_positions_of_a_roberta_begin_behind_its_padding(tmp_path: Path) -> None:
    assert read_embedding_card(embedders.tiny_roberta(tmp_path), "tiny").max_tokens == 64


def test_a_real_folder_says_its_length_and_pooling() -> None:
    card = read_embedding_card(embedders.minilm(), embedders.MINILM)
    assert (card.pooling, card.max_tokens, card.dimensions, card.vocabulary) == ("mean", 256, 384, 30522)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode": "mean", "word_embedding_dimension": 64}, "mean"),
    ],
)
def test_the_pooling_file_is_followed(qwen: Path, pooling: dict[str, Any], expected: str) -> None:
    embedders.sentence_files(qwen, pooling)
    assert read_embedding_card(qwen, "tiny").pooling == expected


def _two_modes(folder: Path) -> None:
    embedders.sentence_files(folder, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True})


def _unknown_mode(folder: Path) -> None:
    embedders.sentence_files(folder, {"pooling_mode_max_tokens": True})


def _no_mode(folder: Path) -> None:
    embedders.sentence_files(folder, {})


def _dense(folder: Path) -> None:
    embedders.sentence_files(folder, {"pooling_mode": "mean"}, ("Transformer", "Pooling", "Dense"))


def _broken_modules(folder: Path) -> None:
    (folder / "modules.json").write_text('{"a": 1}')


def _lower(folder: Path) -> None:
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 16, "do_lower_case": true}')


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_two_modes, "pooling_mode_cls_token, pooling_mode_mean_tokens"),
        (_unknown_mode, "one of lasttoken, mean, cls is served"),
        (_no_mode, "asks for the pooling none"),
        (_dense, "a stage of type Dense"),
        (_broken_modules, "should hold a list of objects"),
        (_lower, "in lower case"),
        (lambda folder: change(folder, position_embedding_type="relative_key"), "'relative_key'"),
        (lambda folder: change(folder, quantization={"bits": 4, "group_size": 64}), "quantized"),
        (lambda folder: change(folder, model_type="mpnet"), "'mpnet'; embeddings are served of qwen3, bert"),
        (lambda folder: change(folder, hidden_size="wide"), "does not say its hidden_size"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"no model\*.safetensors"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_sentence(
    bert: Path, spoil: Callable[[Path], None], sentence: str
) -> None:
    spoil(bert)
    with pytest.raises(StartError, match=sentence) as refused:
        read_embedding_card(bert, "tiny")
    assert "\n" not in refused.value.message


def test_a_shorter_length_of_the_sentence_file_counts(bert: Path) -> None:
    (bert / "sentence_bert_config.json").write_text('{"max_seq_length": 16, "do_lower_case": false}')
    assert read_embedding_card(bert, "tiny").max_tokens == 16


def test_embedding_models_are_told_from_those_that_generate(bert: Path, qwen: Path, tmp_path: Path) -> None:
    assert is_embedding_model(bert, "owner/any")
    assert is_embedding_model(qwen, "owner/any"), "its config names the bare model"
    change(qwen, architectures=["Qwen3ForCausalLM"])
    assert not is_embedding_model(qwen, "owner/Qwen3-4B")
    assert is_embedding_model(qwen, "owner/Qwen3-Embedding-4B-4bit")
    embedders.sentence_files(qwen, {"pooling_mode_lasttoken": True})
    assert is_embedding_model(qwen, "owner/Qwen3-4B")
    assert not is_embedding_model(checkpoints.tiny_llama(tmp_path / "llama"), "owner/embedding-llama")
    assert not is_embedding_model(tmp_path / "nothing", "nothing")


def test_a_main_model_that_embeds_leaves_no_generation(bert: Path) -> None:
    lineup = line_up(parse({"model": str(bert)}), progress=False)
    assert not lineup.generates
    assert lineup.embedding is not None
    assert lineup.served is lineup.embedding.model
    assert lineup.served.model_id == "bert"


def test_an_embedding_model_stands_beside_a_chat_model(bert: Path, tmp_path: Path) -> None:
    chat = checkpoints.tiny_llama(tmp_path / "llama")
    lineup = line_up(parse({"model": str(chat), "embeddings": {"model": str(bert)}}), progress=False)
    assert (lineup.generates, lineup.served.model_id) == (True, "llama")
    assert lineup.embedding is not None
    assert lineup.embedding.model.model_id == "bert"
    assert line_up(parse({"model": str(chat)}), progress=False).embedding is None


def test_two_embedding_models_are_one_too_many(bert: Path, qwen: Path) -> None:
    with pytest.raises(StartError, match=r"leave embeddings\.model out"):
        line_up(parse({"model": str(bert), "embeddings": {"model": str(qwen)}}), progress=False)


def test_a_plain_model_beside_must_be_one_that_embeds(tmp_path: Path) -> None:
    chat = checkpoints.tiny_llama(tmp_path / "llama")
    with pytest.raises(StartError, match="type 'llama'"):
        line_up(parse({"model": str(chat), "embeddings": {"model": str(chat)}}), progress=False)
