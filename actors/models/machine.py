"""What this machine is: its chip, its RAM and how fast its memory is."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import psutil

from actors.models.sku import CHIPS, UNKNOWN_BANDWIDTH

_COPIED = 64 * 2**20
_ROUNDS = 4
_PATIENCE_S = 5


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine."""

    chip: str
    """Such as `M4 Pro`, or what Linux calls the processor."""
    ram_bytes: int
    """All of its RAM."""
    bandwidth_gbs: float
    """Of the memory that models are read from, in GB/s."""


@cache
def this_machine() -> Machine:
    """The machine this runs on. Blocks for milliseconds, the first time only.

    The memory of a processor that is in no table is measured, unless a CUDA device does the work, of which nothing is
    known.
    """
    chip = _apple_chip() if sys.platform == "darwin" else _linux_chip(Path("/proc/cpuinfo"))
    known = CHIPS.get(chip)
    if known is not None:
        bandwidth = known[0]
    elif sys.platform == "darwin" or Path("/proc/driver/nvidia/gpus").is_dir():
        bandwidth = UNKNOWN_BANDWIDTH
    else:
        bandwidth = measured_bandwidth()
    return Machine(chip, psutil.virtual_memory().total, bandwidth)


def measured_bandwidth() -> float:
    """Bytes that copying reads and writes, in GB/s; the best of a few rounds."""
    source = np.ones(_COPIED, dtype=np.uint8)
    target = np.zeros_like(source)
    best = float("inf")
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - started)
    return round(2 * _COPIED / best / 1e9, 1)


def _apple_chip() -> str:
    command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return platform.machine()
    return said.strip().removeprefix("Apple ")


def _linux_chip(cpuinfo: Path) -> str:
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model") and value.strip():
            return value.strip()
    return platform.machine()
