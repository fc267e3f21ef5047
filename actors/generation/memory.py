"""How much of the memory that MLX may use is in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx
import psutil

from actors.generation.loading import on_gpu


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes, at one moment."""

    used: int
    """In use. Buffers that MLX keeps to use them again do not count."""
    usable: int
    """What may be in use."""

    def shortage(self, fill: float) -> int:
        """Bytes in use beyond `fill` of what may be; 0 while there are none, and always where `fill` is 1."""
        return max(0, self.used - int(fill * self.usable)) if fill < 1 else 0


def measure() -> Memory:
    """The GPU's memory where MLX runs on one, else the machine's. Costs tens of microseconds; any thread may ask."""
    if on_gpu():
        found = of_gpu(mx.device_info(), mx.get_active_memory())
        if found is not None:
            return found
    ram = psutil.virtual_memory()
    return Memory(ram.total - ram.available, ram.total)


def of_gpu(info: Mapping[str, str | int], active: int) -> Memory | None:
    """From what MLX says of a device. None when it says nothing of its memory.

    Metal names the working set that MLX should stay within; with CUDA the whole device is meant.
    """
    usable = info.get("max_recommended_working_set_size") or info.get("total_memory") or info.get("memory_size")
    return Memory(active, int(usable)) if usable else None
