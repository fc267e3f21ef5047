"""The lease as a real actor, with real processes that are killed. The kernel is the witness: every step takes a file
lock without waiting, and a lock that is taken already is an overlap. It falls with its process, so nothing is timed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import ray.cloudpickle
from ray.exceptions import RayActorError

from actors.errors import ShuttingDown
from actors.gpu_lease.holder import LeaseHolder
from actors.gpu_lease.messages import LeaseClass, LeaseStatistics
from actors.gpu_lease.stage import lease_here, lease_name, run_folder
from actors.settings import LeaseSettings

SETTINGS = LeaseSettings(slice_ms=20.0)
PATIENCE_S = 60.0

# Workers cannot import test modules; they get the classes themselves.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Worker:
    """A process with an engine thread that works under the lease for as long as it lives."""

    def __init__(self, name: str, lease_class: LeaseClass, witness: Path) -> None:
        self._name = name
        self._class: LeaseClass = lease_class
        self._witness = witness
        self._steps = 0
        self._overlaps = 0
        self._step_s = 0.002
        self._stepped = asyncio.Event()
        self._stuck = asyncio.Event()

    async def start(self) -> int:
        self._loop = asyncio.get_running_loop()
        self.lease = LeaseHolder(lambda: lease_here(SETTINGS), self._name, self._class, self._loop)
        threading.Thread(target=self._work, daemon=True).start()
        return os.getpid()

    async def steps(self, count: int) -> int:
        """Return when `count` more steps are done; the overlaps seen so far."""
        goal = self._steps + count
        while self._steps < goal:
            self._stepped.clear()
            await self._stepped.wait()
        return self._overlaps

    async def get_stuck(self) -> None:
        """Return in the middle of a step that never ends by itself."""
        self._step_s = 3600.0
        await self._stuck.wait()

    async def close(self) -> None:
        self.lease.close()
        await self.lease.closed()

    def _work(self) -> None:
        with contextlib.suppress(ShuttingDown), self._witness.open("ab") as witness:
            while True:
                self.lease.hold()
                self._step(witness.fileno())
                if self.lease.must_yield:
                    self.lease.give_way()

    def _step(self, witness: int) -> None:
        try:
            fcntl.flock(witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._overlaps += 1
            return
        step_s = self._step_s
        if step_s > 1:
            self._loop.call_soon_threadsafe(self._stuck.set)
        time.sleep(step_s)
        fcntl.flock(witness, fcntl.LOCK_UN)
        self._steps += 1
        self._loop.call_soon_threadsafe(self._stepped.set)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TROUPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, namespace="lease-tests")
        yield
        ray.shutdown()


class Company:
    def __init__(self, witness: Path) -> None:
        self._witness = witness
        self._pids: dict[Any, int] = {}

    def hire(self, *staff: tuple[str, LeaseClass]) -> list[Any]:
        hired: Any = ray.remote(Worker)
        workers = [hired.options(num_cpus=0).remote(*who, self._witness) for who in staff]
        pids = ray.get([worker.start.remote() for worker in workers], timeout=PATIENCE_S)
        self._pids.update(zip(workers, pids, strict=True))
        return workers

    def kill(self, worker: Any) -> None:
        os.kill(self._pids.pop(worker), signal.SIGKILL)

    def dismiss(self) -> None:
        ray.get([worker.close.remote() for worker in self._pids], timeout=PATIENCE_S)
        for worker in self._pids:
            ray.kill(worker)


@pytest.fixture
def company(cluster: None, tmp_path: Path) -> Iterator[Company]:
    company = Company(tmp_path / "witness")
    yield company
    company.dismiss()


def all_step_without_overlap(workers: list[Any], count: int) -> None:
    assert ray.get([worker.steps.remote(count) for worker in workers], timeout=PATIENCE_S) == [0] * len(workers)


def statistics() -> LeaseStatistics:
    return ray.get(lease_here(SETTINGS).statistics.remote(), timeout=PATIENCE_S)


def kill_the_lease() -> None:
    pid: Any = ray.get(lease_here(SETTINGS).__ray_call__.remote(lambda self: os.getpid()), timeout=PATIENCE_S)
    os.kill(pid, signal.SIGKILL)


def statistics_when(condition: Callable[[LeaseStatistics], bool]) -> LeaseStatistics:
    """The lease's first statistics that fulfil the condition, through a restart of the lease."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(RayActorError):
            if condition(state := statistics()):
                return state
    raise AssertionError("the lease never got there")


def somebody_asked(state: LeaseStatistics) -> bool:
    return state.holder is not None or any(of_class.waiting for of_class in state.classes.values())


def test_there_is_one_lease_a_node_under_a_known_name(cluster: None) -> None:
    one, other = lease_here(SETTINGS), lease_here(SETTINGS)
    assert one == other
    assert ray.get_actor(lease_name(ray.get_runtime_context().get_node_id()), namespace="troupe") == one
    assert run_folder().stat().st_mode & 0o777 == 0o700


def test_a_killed_holder_leaves_the_lease_to_the_next(company: Company) -> None:
    first, second = company.hire(("first", "interactive"), ("second", "background"))
    all_step_without_overlap([first, second], 2)
    deaths = statistics().deaths
    ray.get(first.get_stuck.remote(), timeout=PATIENCE_S)
    assert statistics().holder == "first"
    company.kill(first)
    all_step_without_overlap([second], 2)
    assert statistics().deaths == deaths + 1


def test_a_killed_lease_comes_back_without_letting_two_run(company: Company) -> None:
    workers = company.hire(("a", "interactive"), ("b", "transcription"), ("c", "background"))
    all_step_without_overlap(workers, 2)
    for _ in range(2):
        epoch = statistics().epoch
        kill_the_lease()
        assert statistics_when(lambda state, epoch=epoch: state.epoch > epoch).epoch == epoch + 1
        all_step_without_overlap(workers, 2)


def test_a_holder_killed_together_with_the_lease_holds_nobody_up(company: Company) -> None:
    first, second = company.hire(("first", "interactive"), ("second", "background"))
    all_step_without_overlap([first, second], 2)
    ray.get(first.get_stuck.remote(), timeout=PATIENCE_S)
    epoch = statistics().epoch
    kill_the_lease()
    state = statistics_when(lambda state: state.epoch > epoch and somebody_asked(state))
    assert state.holder is None, "the old holder still works, and the new lease knows"
    company.kill(first)
    all_step_without_overlap([second], 2)
