"""How the C library keeps memory in a process that runs MLX on a Linux CPU.

MLX's CPU backend asks the C library for every array of every operation. By default glibc takes large ones from the
system anew each time and gives them back at once, and the system clears them page by page: a fifth of a prompt's time.
"""

from __future__ import annotations

import os
import platform

from actors import blas

TUNABLES = "GLIBC_TUNABLES"

_KEPT = 256 * 2**20
"""Free bytes that a process may keep."""
_MAPPED = 32 * 2**20
"""Larger blocks come from the system and go back to it. glibc takes no higher bound."""


def environment() -> dict[str, str]:
    """What an engine's process is to be started with. Empty without glibc, on a GPU, and where the user has chosen."""
    if platform.libc_ver()[0] != "glibc" or not blas.runs_on_cpu() or TUNABLES in os.environ:
        return {}
    settings = {"hugetlb": 1, "mmap_threshold": _MAPPED, "trim_threshold": _KEPT}
    return {TUNABLES: ":".join(f"glibc.malloc.{name}={value}" for name, value in settings.items())}
