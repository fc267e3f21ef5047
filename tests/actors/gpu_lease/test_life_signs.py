from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen

import psutil
import pytest

from actors.gpu_lease.life_signs import LifeSigns
from actors.gpu_lease.process import Process, this_process

ROOT = Path(__file__).parents[3]


@pytest.fixture(params=["kernel's files", "without"])
def signs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[LifeSigns]:
    if request.param == "without":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    found = LifeSigns()
    yield found
    found.keep(frozenset())


def test_a_killed_process_is_dead_before_and_after_it_is_reaped(signs: LifeSigns) -> None:
    code = "from actors.gpu_lease.process import this_process; print(this_process().started, flush=True); input()"
    with Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE, cwd=ROOT) as child:
        assert child.stdout is not None
        process = Process(child.pid, float(child.stdout.readline()))
        assert signs.alive(process) and signs.alive(process)
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not signs.alive(process)
        child.wait()
        assert not signs.alive(process)
        assert not LifeSigns().alive(process)


def test_another_start_time_is_another_process(signs: LifeSigns) -> None:
    former = replace(this_process(), started=this_process().started - 10)
    assert not signs.alive(former)
    assert signs.alive(this_process())
    assert not signs.alive(former)


def test_no_file_is_left_open(signs: LifeSigns) -> None:
    before = psutil.Process().num_fds()
    former = replace(this_process(), started=this_process().started - 10)
    for _ in range(50):
        assert signs.alive(this_process()) and not signs.alive(former)
    assert psutil.Process().num_fds() <= before + 1
    signs.keep(frozenset())
    assert psutil.Process().num_fds() == before
