"""Which process the operating system should prefer: the engine, whose every thread waits for its slowest one."""

from __future__ import annotations

import logging

import psutil

log = logging.getLogger("troupe.priority")

NICENESS = -10
"""Preferred over ordinary processes, well below what keeps a machine alive."""


def claim() -> None:
    """Raise this process's priority where the system allows it (a container, a service); elsewhere change nothing.

    A matrix product is cut into equal parts, one a core, so a housekeeping process that takes a tenth of one core costs
    a tenth of the whole.
    """
    try:
        psutil.Process().nice(NICENESS)
    except psutil.AccessDenied:
        log.debug("the system does not let this user raise priorities")
