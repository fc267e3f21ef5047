from __future__ import annotations

import asyncio
import sys

import numpy as np
import psutil
import pytest

from actors import heap


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's way")
async def test_memory_that_was_let_go_of_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_SOON_S", 0.01)
    process, size = psutil.Process(), 2**16
    arrays = [np.ones(size, dtype=np.uint8) for _ in range(2000)]
    last = np.ones(size, dtype=np.uint8)  # what lies behind keeps the heap from shrinking by itself
    full = process.memory_info().rss
    arrays.clear()
    heap.trim_soon()
    for _ in range(200):
        await asyncio.sleep(0.02)
        if process.memory_info().rss < full - 1000 * size:
            break
    assert process.memory_info().rss < full - 1000 * size
    assert last.all()
