"""The safetensors files of a checkpoint, checked and fingerprinted by their headers alone."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from actors.errors import StartError

_LARGEST_HEADER = 100_000_000
_SHARD = re.compile(r"(model.*)-\d+-of-(\d+)\.safetensors")


@dataclass(frozen=True, slots=True)
class WeightFile:
    """One intact file of weights."""

    path: Path
    """Where it is."""
    size: int
    """Its bytes."""
    digest: str
    """SHA-256 over its name, header, size and time of change: cheap, and different for different weights."""


def weight_files(folder: Path) -> tuple[WeightFile, ...]:
    """Every `model*.safetensors` of a checkpoint, in name order; these are the files mlx-lm reads.

    Reads the headers only.

    Raises:
        StartError: there is none, a shard is missing, or a file is cut short or no safetensors file.
    """
    paths = sorted(folder.glob("model*.safetensors"))
    if not paths:
        raise StartError(f"{folder} holds no model*.safetensors file")
    _check_shards(folder, [path.name for path in paths])
    return tuple(_read(path) for path in paths)


def _check_shards(folder: Path, names: list[str]) -> None:
    """Files named `…-00002-of-00005…` come in sets."""
    sets: dict[tuple[str, str], int] = {}
    for match in filter(None, map(_SHARD.fullmatch, names)):
        sets[match[1], match[2]] = sets.get((match[1], match[2]), 0) + 1
    for (stem, count), found in sets.items():
        if found < int(count):
            raise StartError(f"{folder} holds only {found} of the {int(count)} files {stem}-*-of-{count}.safetensors")


def _read(path: Path) -> WeightFile:
    try:
        status = path.stat()
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header = stream.read(length) if length <= min(_LARGEST_HEADER, status.st_size - 8) else b""
    except OSError as error:
        raise StartError(f"cannot read {path}: {error.strerror}") from None
    expected = 8 + length + _data_length(path, header)
    if status.st_size < expected:
        raise StartError(f"{path} is cut short: {status.st_size} of {expected} bytes are there")
    if status.st_size > expected:
        raise StartError(f"{path} is damaged: {status.st_size - expected} bytes follow its last tensor")
    digest = hashlib.sha256(header)
    digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}".encode())
    return WeightFile(path, status.st_size, digest.hexdigest())


def _data_length(path: Path, header: bytes) -> int:
    """Bytes of all tensors, as the header states them."""
    try:
        tensors = json.loads(header)
        return max((int(entry["data_offsets"][1]) for name, entry in tensors.items() if name != "__metadata__"))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        raise StartError(f"{path} is cut short or no safetensors file: its header cannot be read") from None
