"""What a server costs while nobody asks: processor time and memory of each of its processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Footprint:
    """One process, or several of one name together."""

    name: str
    processes: int
    cpu_percent: float
    """Of one core."""
    rss_mb: float
    """Resident memory; pages that several processes share count in each."""
    pss_mb: float
    """Memory with shared pages divided among those who share them; the unshared part where the system counts no PSS."""


def watch(processes: Sequence[psutil.Process], seconds: float) -> list[Footprint]:
    """Look at the processes for `seconds`, which it blocks. One that ends meanwhile is left out."""
    before = {process: _cpu_s(process) for process in processes}
    began = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    found = []
    for process, earlier in before.items():
        try:
            memory = process.memory_full_info()
            pss = getattr(memory, "pss", memory.uss)
            cpu = 100 * (_cpu_s(process) - earlier) / elapsed
            found.append(Footprint(role(process.cmdline()), 1, cpu, memory.rss / 1e6, pss / 1e6))
        except psutil.NoSuchProcess:
            continue
    return gather(found)


def gather(found: Sequence[Footprint]) -> list[Footprint]:
    """Footprints of one name put together, the largest memory first."""
    names = dict.fromkeys(one.name for one in found)
    return sorted(
        (_together([one for one in found if one.name == name]) for name in names), key=lambda one: -one.pss_mb
    )


def _together(same: Sequence[Footprint]) -> Footprint:
    return Footprint(
        same[0].name,
        sum(one.processes for one in same),
        sum(one.cpu_percent for one in same),
        sum(one.rss_mb for one in same),
        sum(one.pss_mb for one in same),
    )


def role(command: Sequence[str]) -> str:
    """What a process does, by its command line. Actors carry their names in it."""
    title = command[0] if command else "?"
    if title.startswith("ray::"):
        # A process that runs a method shows it after a dot.
        return title.removeprefix("ray::").removeprefix("ServeReplica:troupe:").split()[0].split(".")[0]
    words = " ".join(command)
    for mark, name in _ROLES:
        if mark in words:
            return name
    return Path(title).name


_ROLES = (
    ("mlx_lm", "mlx_lm.server"),
    ("serve run", "serve run"),
    ("gcs_server", "Ray control store"),
    ("raylet/raylet", "Ray raylet"),
    ("dashboard", "Ray dashboard"),
    ("log_monitor", "Ray log monitor"),
    ("autoscaler", "Ray autoscaler monitor"),
    ("runtime_env/agent", "Ray agents"),
    ("multiprocessing", "Ray helpers"),
    ("default_worker", "Ray idle worker"),
)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
