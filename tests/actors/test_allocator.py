from __future__ import annotations

import os
import subprocess
import sys

import pytest

from actors import allocator, blas

CHURN = """
import resource
import numpy as np
for _ in range(200):
    np.ones(2_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def faults(**more: str) -> int:
    """Pages that a process was given which makes and drops arrays of 16 MB."""
    environment = {name: value for name, value in os.environ.items() if name != allocator.TUNABLES}
    done = subprocess.run([sys.executable, "-c", CHURN], env=environment | more, capture_output=True, check=True)
    return int(done.stdout)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(allocator.TUNABLES, raising=False)
    monkeypatch.setattr(blas, "runs_on_cpu", lambda: True)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's way")
def test_memory_is_kept_where_it_will_be_wanted_again(here: None) -> None:
    fresh = {allocator.TUNABLES: "glibc.malloc.mmap_threshold=1000000"}
    assert faults(**allocator.environment()) < faults(**fresh) / 10


def test_what_the_user_chose_stays(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(allocator.TUNABLES, "glibc.malloc.check=1")
    assert allocator.environment() == {}


def test_a_gpu_has_an_allocator_of_its_own(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "runs_on_cpu", lambda: False)
    assert allocator.environment() == {}
