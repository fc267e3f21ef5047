"""Where a CPU engine finds a fast BLAS.

MLX's Linux CPU build links the reference BLAS, which is thirty times slower in float32.
"""

from __future__ import annotations

import ctypes.util
import os
import platform
from importlib import metadata

from actors.settings import GenerationSettings

_NAMES = ("libopenblas.so.0", "libopenblasp.so.0")


def engine_environment(settings: GenerationSettings) -> dict[str, str]:
    """Environment of the process that runs MLX: threads for all cores, and OpenBLAS where it is wanted and there."""
    cores = str(os.cpu_count() or 1)
    environment = {"OMP_NUM_THREADS": cores, "OPENBLAS_NUM_THREADS": cores}
    library = openblas()
    if settings.blas == "auto" and library and runs_on_cpu():
        environment["LD_PRELOAD"] = library
    return environment


def quiet_environment() -> dict[str, str]:
    """Environment of every other process: one thread, so that they never compete with the engine."""
    return {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "RAYON_NUM_THREADS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }


def runs_on_cpu() -> bool:
    """Whether the installed MLX has no GPU backend. Looks at packages only; does not import MLX."""
    if platform.system() != "Linux":
        return False
    return not any(_installed(name) for name in ("mlx-cuda-12", "mlx-cuda-13", "mlx-cuda"))


def openblas() -> str | None:
    """Name of a loadable OpenBLAS, or None."""
    found = ctypes.util.find_library("openblas")
    for name in (*_NAMES, *([found] if found else [])):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return name
    return None


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
