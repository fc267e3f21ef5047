"""Machines by Apple that a model may be meant for: memory bandwidth and the sizes of RAM that were sold. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from actors.models.fit import Load, assess, usable_bytes

UNKNOWN_BANDWIDTH = 273.0
"""GB/s of a chip that is not in the table."""

CHIPS: dict[str, tuple[float, tuple[int, ...]]] = {
    "M1": (68, (8, 16)),
    "M1 Pro": (200, (16, 32)),
    "M1 Max": (400, (32, 64)),
    "M1 Ultra": (800, (64, 128)),
    "M2": (100, (8, 16, 24)),
    "M2 Pro": (200, (16, 32)),
    "M2 Max": (400, (32, 64, 96)),
    "M2 Ultra": (800, (64, 128, 192)),
    "M3": (100, (8, 16, 24)),
    "M3 Pro": (150, (18, 36)),
    "M3 Max": (400, (36, 48, 64, 96, 128)),
    "M3 Ultra": (819, (96, 256, 512)),
    "M4": (120, (16, 24, 32)),
    "M4 Pro": (273, (24, 48)),
    "M4 Max": (546, (36, 48, 64, 128)),
}
"""Bandwidth in GB/s and sizes of RAM in GB, by chip."""


@dataclass(frozen=True, slots=True)
class SkuFit:
    """How a model would stand on one machine."""

    sku: str
    """Such as `M4 Pro 24 GB`."""
    ram_gb: int
    """Its RAM."""
    fits: bool
    """Whether the context asked for fits."""
    max_context: int
    """Longest context that does."""
    decode_tps: float
    """Estimated tokens a second at the context asked for."""


def matrix(load: Load, context: int) -> Iterator[SkuFit]:
    """A model on every machine, with `context` tokens or the model's own window if that is shorter."""
    context = min(context, load.layers.context_window or context)
    for chip, (bandwidth, sizes) in CHIPS.items():
        for ram in sizes:
            fit = assess(load, usable_bytes(ram * 2**30, None), bandwidth, context)
            yield SkuFit(f"{chip} {ram} GB", ram, fit.fits, fit.max_context, fit.decode_tps)
