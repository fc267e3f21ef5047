"""Whether the processes that concern the lease live, looked at several times a second for as long as they do."""

from __future__ import annotations

import os
import select
from collections.abc import Set

from actors.gpu_lease.process import Process, is_alive


class LifeSigns:
    """Asks the kernel by a file of each process where it has them (Linux): far less work than reading its state."""

    def __init__(self) -> None:
        self._files: dict[Process, int] = {}

    def alive(self, process: Process) -> bool:
        """As `process.is_alive`."""
        if process not in self._files:
            file = _open(process)
            if not is_alive(process):  # asked when the file is open, which belongs to whoever has the number then
                _close(file)
                return False
            self._files[process] = file
        if (file := self._files[process]) < 0:
            return is_alive(process)
        return not _ended(file)

    def keep(self, processes: Set[Process]) -> None:
        """Forget all others."""
        for process in self._files.keys() - processes:
            _close(self._files.pop(process))


def _open(process: Process) -> int:
    if not hasattr(os, "pidfd_open"):
        return -1
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        return -1


def _close(file: int) -> None:
    if file >= 0:
        os.close(file)


def _ended(file: int) -> bool:
    """The file can be read when the last thread of its process is gone."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
