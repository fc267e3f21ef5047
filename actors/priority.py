"""Which process the operating system should prefer: the engine, whose every thread waits for its slowest one."""

from __future__ import annotations

import logging
import os
import sys
import threading

import psutil

log = logging.getLogger("troupe.priority")

NICENESS = -10
"""Preferred over ordinary processes, well below what keeps a machine alive."""


STEPPED_BACK = 10
"""Niceness of a thread whose work can wait."""


def step_back() -> None:
    """Let the calling thread run behind everything else, where threads have priorities of their own (Linux)."""
    if sys.platform.startswith("linux"):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), STEPPED_BACK)


def claim() -> None:
    """Raise this process's priority where the system allows it (a container, a service); elsewhere change nothing.

    A matrix product is cut into equal parts, one a core, so a housekeeping process that takes a tenth of one core costs
    a tenth of the whole.
    """
    try:
        psutil.Process().nice(NICENESS)
    except psutil.AccessDenied:
        log.debug("the system does not let this user raise priorities")
