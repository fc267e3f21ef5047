"""Waiting for what offers no event to wait for: always for a condition, never for a time, within a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 120.0
_PAUSE_S = 0.05
_SHORT_PAUSE_S = 0.001


async def eventually(question: Callable[[], Awaitable[T | None]], patience_s: float = PATIENCE_S) -> T:
    """Ask others until the answer is true, and return it.

    Raises:
        TimeoutError: it never was.
    """
    async with asyncio.timeout(patience_s):
        while True:
            if answer := await question():
                return answer
            await asyncio.sleep(_PAUSE_S)


async def until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Let this event loop work until the condition is true.

    Raises:
        TimeoutError: it never was.
    """
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(_SHORT_PAUSE_S)


def wait_until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Block until the condition is true; `what` says in a failure what did not happen.

    Raises:
        TimeoutError: it never was.
    """
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"in {patience_s:g} s it did not happen that {what}")
        time.sleep(_PAUSE_S)
