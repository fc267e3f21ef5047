from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen

from actors.gpu_lease.process import Process, is_alive, this_process

ROOT = Path(__file__).parents[3]


def test_this_process_is_alive_and_named_alike_each_time() -> None:
    assert this_process().pid == os.getpid()
    assert abs(this_process().started - this_process().started) < 0.1
    assert is_alive(this_process())


def test_another_start_time_is_another_process() -> None:
    assert not is_alive(replace(this_process(), started=this_process().started - 10))


def test_a_killed_process_is_dead_before_and_after_it_is_reaped() -> None:
    code = "from actors.gpu_lease.process import this_process; print(this_process().started, flush=True); input()"
    with Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE, cwd=ROOT) as child:
        assert child.stdout is not None
        process = Process(child.pid, float(child.stdout.readline()))
        assert is_alive(process)
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(process)
        child.wait()
        assert not is_alive(process)
