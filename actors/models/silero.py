"""Silero VAD (MIT), the model that tells speech from everything else: one ONNX file out of its published wheel.

The package itself is not installed, because it depends on torch and torchaudio.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from actors.models import keep, wheel
from actors.models.folders import cache_folder

SOURCE = wheel.WheelFile(
    package="silero-vad",
    version="6.2.3",
    member="silero_vad/data/silero_vad_16k_sequence.onnx",
    wheel_sha256="7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    member_sha256="9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
)


def ensure(*, progress: bool = True) -> Path:
    """The ONNX file, fetched when it is missing or damaged. Blocks; see `keep.ensure`. Raises `StartError`."""
    facts = {"source_sha256": SOURCE.member_sha256}
    build = partial(_build, progress=progress)
    folder = keep.ensure(keep.Kept(cache_folder() / "silero-vad", "the voice detector", facts, 30_000_000, build))
    return folder / Path(SOURCE.member).name


def _build(scratch: Path, fresh: Path, *, progress: bool) -> None:
    found = wheel.fetch(SOURCE, scratch, progress=progress)
    found.rename(fresh / found.name)
