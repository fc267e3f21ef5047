"""benchmarks/footprint.py."""

from __future__ import annotations

import psutil
import pytest

from benchmarks.footprint import Footprint, gather, role, watch


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["ray::ServeReplica:troupe:GenerationScheduler"], "GenerationScheduler"),
        (["ray::GpuLease"], "GpuLease"),
        (["ray::ServeController.listen_for_change"], "ServeController"),
        (["python", "/env/bin/serve", "run", "config.yaml"], "serve run"),
        (["/ray/core/gcs/gcs_server", "--port=0"], "Ray control store"),
        (["/ray/raylet/raylet"], "Ray raylet"),
        (["python", "-m", "mlx_lm", "server"], "mlx_lm.server"),
        (["/usr/bin/cat"], "cat"),
        ([], "?"),
    ],
)
def test_a_process_is_named_by_what_it_does(command: list[str], name: str) -> None:
    assert role(command) == name


def test_processes_of_one_name_are_put_together_and_the_largest_comes_first() -> None:
    found = [Footprint("a", 1, 1, 10, 5), Footprint("b", 1, 2, 40, 30), Footprint("a", 1, 3, 20, 15)]
    assert gather(found) == [Footprint("b", 1, 2, 40, 30), Footprint("a", 2, 4, 30, 20)]


def test_a_living_process_has_memory() -> None:
    (own,) = watch([psutil.Process()], 0.0001)
    assert own.processes == 1
    assert own.rss_mb > 0
    assert 0 < own.pss_mb <= own.rss_mb
