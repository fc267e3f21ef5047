"""Whisper checkpoints in CTranslate2's binary format, read into arrays under mlx-whisper's names.

The file is a list of named tensors: version, kind, revision, count; then for each its name, shape, type and bytes; then
names that stand for other ones, which are not needed here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_VERSION = 6
_TYPES = ("<f4", "<i1", "<i2", "<i4", "<f2")
_MOST_DIMENSIONS = 4

_PARTS = {
    "self_attention/layer_norm": "attn_ln",
    "attention/layer_norm": "cross_attn_ln",
    "ffn/layer_norm": "mlp_ln",
    "ffn/linear_0": "mlp1",
    "ffn/linear_1": "mlp2",
}
_LEAVES = {"gamma": "weight", "beta": "bias", "weight": "weight", "bias": "bias"}


class DamagedModel(ValueError):
    """The bytes are no Whisper model in this format."""


@dataclass(frozen=True, slots=True)
class WhisperArrays:
    """A whole Whisper model."""

    dimensions: dict[str, int]
    """As mlx-whisper's config.json names them."""
    weights: dict[str, Array]
    """By mlx-whisper's names, linear weights as (outputs, inputs), convolutions as (outputs, width, inputs)."""


def read_whisper(path: Path) -> WhisperArrays:
    """Read a `model.bin`. Blocks for the reading of the file.

    Raises:
        DamagedModel: it is cut short, of another version, or no Whisper model.
    """
    try:
        tensors = dict(_tensors(path.read_bytes()))
        return WhisperArrays(_dimensions(tensors), dict(_renamed(tensors)))
    except (struct.error, UnicodeDecodeError, KeyError, IndexError) as error:
        raise DamagedModel(f"{path.name} is no whole Whisper model: {error!r}") from None


def write_config(arrays: WhisperArrays, path: Path) -> None:
    """Write the config.json that mlx-whisper reads."""
    path.write_text(json.dumps({"model_type": "whisper", **arrays.dimensions}, indent=2) + "\n", encoding="utf-8")


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(f"<{code}", self._data, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value

    def take(self, size: int) -> memoryview:
        if size > len(self._data) - self._at:
            raise DamagedModel("the file is cut short")
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        return bytes(self.take(self.number("H"))).rstrip(b"\0").decode()


def _tensors(data: bytes) -> Iterator[tuple[str, Array]]:
    source = _Bytes(data)
    version, kind = source.number("I"), source.text()
    if version != _VERSION or kind != "WhisperSpec":
        raise DamagedModel(f"version {version} of {kind!r} is not the format that is read here")
    source.number("I")
    for _ in range(source.number("I")):
        name = source.text()
        rank = source.number("B")
        if rank > _MOST_DIMENSIONS:
            raise DamagedModel(f"{name} has {rank} dimensions")
        shape = [source.number("I") for _ in range(rank)]
        kind_of_number = _TYPES[source.number("B")]
        content = np.frombuffer(source.take(source.number("I")), dtype=kind_of_number)
        if content.size != int(np.prod(shape, dtype=np.int64)):
            raise DamagedModel(f"{name} holds {content.size} numbers for the shape {shape}")
        yield name, content.reshape(shape)


def _dimensions(tensors: dict[str, Array]) -> dict[str, int]:
    audio, text = tensors["encoder/position_encodings/encodings"], tensors["decoder/position_encodings/encodings"]
    return {
        "n_mels": tensors["encoder/conv1/weight"].shape[1],
        "n_audio_ctx": audio.shape[0],
        "n_audio_state": audio.shape[1],
        "n_audio_head": int(tensors["encoder/num_heads"]),
        "n_audio_layer": _layers(tensors, "encoder"),
        "n_vocab": tensors["decoder/embeddings/weight"].shape[0],
        "n_text_ctx": text.shape[0],
        "n_text_state": text.shape[1],
        "n_text_head": int(tensors["decoder/num_heads"]),
        "n_text_layer": _layers(tensors, "decoder"),
    }


def _layers(tensors: dict[str, Array], side: str) -> int:
    return sum(name.startswith(f"{side}/layer_") and name.endswith("/ffn/linear_0/weight") for name in tensors)


def _renamed(tensors: dict[str, Array]) -> Iterator[tuple[str, Array]]:
    yield "decoder.token_embedding.weight", tensors["decoder/embeddings/weight"]
    yield "decoder.positional_embedding", tensors["decoder/position_encodings/encodings"]
    for side, norm in (("encoder", "ln_post"), ("decoder", "ln")):
        for place, leaf in (("gamma", "weight"), ("beta", "bias")):
            yield f"{side}.{norm}.{leaf}", tensors[f"{side}/layer_norm/{place}"]
        for layer in range(_layers(tensors, side)):
            yield from _layer(tensors, f"{side}/layer_{layer}/", f"{side}.blocks.{layer}.")
    for name in ("conv1", "conv2"):
        yield f"encoder.{name}.weight", tensors[f"encoder/{name}/weight"].transpose(0, 2, 1)
        yield f"encoder.{name}.bias", tensors[f"encoder/{name}/bias"]


def _layer(tensors: dict[str, Array], source: str, target: str) -> Iterator[tuple[str, Array]]:
    for part, name in _PARTS.items():
        for place, leaf in _LEAVES.items():
            if (found := tensors.get(f"{source}{part}/{place}")) is not None:
                yield f"{target}{name}.{leaf}", found
    for leaf in ("weight", "bias"):
        fused = tensors[f"{source}self_attention/linear_0/{leaf}"]
        yield from _attention(
            target + "attn", leaf, np.split(fused, 3), tensors[f"{source}self_attention/linear_1/{leaf}"]
        )
        if (query := tensors.get(f"{source}attention/linear_0/{leaf}")) is not None:
            pair = np.split(tensors[f"{source}attention/linear_1/{leaf}"], 2)
            yield from _attention(
                target + "cross_attn", leaf, [query, *pair], tensors[f"{source}attention/linear_2/{leaf}"]
            )


def _attention(name: str, leaf: str, inputs: list[Array], out: Array) -> Iterator[tuple[str, Array]]:
    for part, array in zip(("query", "key", "value"), inputs, strict=True):
        if (part, leaf) != ("key", "bias"):  # Whisper's keys have none; here it is all zeros
            yield f"{name}.{part}.{leaf}", array
    yield f"{name}.out.{leaf}", out
