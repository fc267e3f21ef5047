"""Names a process so that it can be told from a later one with the same number."""

from __future__ import annotations

import os
from dataclasses import dataclass

import psutil

_TOLERANCE_S = 1.5


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this boot."""

    pid: int
    """Its number, which may be used again once it is gone."""
    started: float
    """Seconds between the start of process 1 and its own."""


def this_process() -> Process:
    """The calling process."""
    return Process(os.getpid(), _started(psutil.Process()))


def is_alive(process: Process) -> bool:
    """Whether any thread of the process still runs; one that is only waiting to be reaped is dead."""
    try:
        found = psutil.Process(process.pid)
        if abs(_started(found) - process.started) > _TOLERANCE_S:
            return False
        # The first thread of a killed process may be gone while another one still is inside a driver.
        return found.status() != psutil.STATUS_ZOMBIE or found.num_threads() > 1
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        # It exists and belongs to somebody else; holding back is the safe side.
        return True


def _started(process: psutil.Process) -> float:
    # Wall-clock start times move when the clock is set, and a holder would look dead while it works. The
    # distance to another process does not move.
    started = process.create_time()
    try:
        return started - psutil.Process(1).create_time()
    except psutil.Error:
        return started - psutil.boot_time()  # Process 1 may be hidden from us.
