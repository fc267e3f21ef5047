"""Running something on a stack of a known size."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

_sizing = threading.Lock()


def on_stack(size: int, work: Callable[[], T]) -> Future[T]:
    """Start `work` in a daemon thread with a stack of `size` bytes; its outcome is the future's."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, name="grammar", daemon=True)
    with _sizing:
        # The size is the whole process's; a thread that another module starts right now only gets more room.
        usual = threading.stack_size(size)
        try:
            thread.start()
        finally:
            threading.stack_size(usual)
    return future
