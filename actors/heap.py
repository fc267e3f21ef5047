"""Memory that the C library keeps for itself although nobody uses it any more."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Any

_SOON_S = 1.0


def trim() -> None:
    """Give it back to the system, where the C library has a way to say that (glibc). Blocks for some milliseconds."""
    library: Any = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def trim_soon() -> None:
    """`trim` in a thread, when whoever holds what is big has had time to let go of it. For an event loop."""
    loop = asyncio.get_running_loop()
    loop.call_later(_SOON_S, loop.run_in_executor, None, trim)
