"""Where a CPU engine finds a fast BLAS.

MLX's Linux CPU build links the reference BLAS, which is thirty times slower in float32.
"""

from __future__ import annotations

import ctypes.util
import os
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from actors.settings import GenerationSettings

CORE_TYPE = "OPENBLAS_CORETYPE"
"""Environment variable that tells OpenBLAS whose kernels to use."""

_NAMES = ("libopenblas.so.0", "libopenblasp.so.0")
_FALLBACKS = frozenset(
    {"Prescott", "Core2", "Penryn", "Nehalem", "Sandybridge", "Generic", "Barcelona", "Opteron", "Unknown"}
)
"""What an OpenBLAS takes an unknown x86 processor for."""
_KERNELS = (
    ("SkylakeX", frozenset({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "fma"})),
    ("Haswell", frozenset({"avx2", "fma"})),
)
"""The best first, with what they need."""


def engine_environment(settings: GenerationSettings) -> dict[str, str]:
    """Environment of the process that runs MLX: threads for all cores, and OpenBLAS where it is wanted and there."""
    cores = str(os.cpu_count() or 1)
    environment = {"OMP_NUM_THREADS": cores, "OPENBLAS_NUM_THREADS": cores}
    library = openblas()
    if settings.blas == "auto" and library and runs_on_cpu():
        environment["LD_PRELOAD"] = library.name
        kernels = better_kernels(library.kernels, _processor_features())
        if kernels and CORE_TYPE not in os.environ:
            environment[CORE_TYPE] = kernels
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


@dataclass(frozen=True, slots=True)
class OpenBlas:
    """A loadable OpenBLAS."""

    name: str
    """What a loader finds it by."""
    kernels: str
    """Whose kernels it picks on this machine, by its own name for that kind of processor; empty if it does not tell."""


def openblas() -> OpenBlas | None:
    """A loadable OpenBLAS, or None. Loads it."""
    found = ctypes.util.find_library("openblas")
    for name in (*_NAMES, *([found] if found else [])):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        return OpenBlas(name, _kernels(library))
    return None


def better_kernels(picked: str, features: frozenset[str]) -> str | None:
    """Kernels that this processor can run and OpenBLAS did not pick, or None when its choice is right.

    A processor younger than the library is taken for the oldest of its make, whose kernels are four times slower.

    Args:
        picked: what it picks by itself.
        features: the processor's, as Linux names them.
    """
    if picked not in _FALLBACKS:
        return None
    return next((kernels for kernels, needed in _KERNELS if needed <= features), None)


def _kernels(library: ctypes.CDLL) -> str:
    try:
        ask = library.openblas_get_corename
    except AttributeError:
        return ""
    ask.restype = ctypes.c_char_p
    return (ask() or b"").decode(errors="replace")


def _processor_features() -> frozenset[str]:
    """Names of the processor's instruction sets; empty where Linux does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
