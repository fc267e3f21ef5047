"""A Whisper model of random numbers, small enough to run in milliseconds, and the real one."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_whisper.whisper import ModelDimensions, Whisper

from actors.models import starter_whisper
from actors.models.whisper_card import WhisperCard, read_whisper_card
from actors.transcription.decoder import WhisperDecoder
from actors.transcription.loading import load

ENGLISH, MULTILINGUAL = 51864, 51865


def tiny_whisper(folder: Path, vocabulary: int = ENGLISH) -> WhisperCard:
    """A checkpoint folder of one layer and width 16."""
    sizes = {
        "n_mels": 80,
        "n_audio_ctx": 1500,
        "n_audio_state": 16,
        "n_audio_head": 1,
        "n_audio_layer": 1,
        "n_vocab": vocabulary,
        "n_text_ctx": 448,
        "n_text_state": 16,
        "n_text_head": 2,
        "n_text_layer": 2,
    }
    mx.random.seed(3)
    model = Whisper(ModelDimensions(**sizes), mx.float32)
    weights: dict[str, mx.array] = dict(tree_flatten(model.parameters()))  # type: ignore[arg-type]
    # Larger ones than those it starts with, so that scores are far from even.
    weights["decoder.token_embedding.weight"] = mx.random.normal(weights["decoder.token_embedding.weight"].shape)
    weights["decoder.positional_embedding"] = mx.random.normal(weights["decoder.positional_embedding"].shape)
    mx.save_safetensors(str(folder / "weights.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps({"model_type": "whisper", **sizes}), encoding="utf-8")
    return read_whisper_card(folder, "tiny-whisper")


@cache
def real_whisper() -> WhisperDecoder:
    """The speech starter."""
    card = read_whisper_card(starter_whisper.ensure(progress=False), starter_whisper.MODEL_ID)
    return WhisperDecoder(load(card, "float32"))


def plain(segments: Any) -> list[tuple[int, float, float, tuple[int, ...]]]:
    """What has to be equal, whoever transcribed."""
    return [(item["seek"], item["start"], item["end"], tuple(item["tokens"])) for item in segments]
