from __future__ import annotations

import psutil
import pytest

from actors.generation.memory import Memory, measure, of_gpu


@pytest.mark.parametrize(
    ("used", "fill", "shortage"),
    [(84, 0.85, 0), (85, 0.85, 0), (90, 0.85, 5), (200, 0.85, 115), (99, 1.0, 0), (200, 1.0, 0), (1, 0.001, 1)],
)
def test_what_is_over_the_mark_is_short(used: int, fill: float, shortage: int) -> None:
    assert Memory(used, 100).shortage(fill) == shortage


def test_on_a_cpu_the_machine_s_memory_counts() -> None:
    memory = measure()
    assert memory.usable == psutil.virtual_memory().total
    assert 0 < memory.used < memory.usable


def test_metal_names_a_working_set_and_cuda_the_device() -> None:
    metal = {"device_name": "chip", "max_recommended_working_set_size": 80, "memory_size": 100}
    assert of_gpu(metal, 7) == Memory(7, 80)
    assert of_gpu({"total_memory": 100, "free_memory": 60}, 7) == Memory(7, 100)
    assert of_gpu({"device_name": "unheard of"}, 7) is None
