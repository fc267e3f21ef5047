"""How the child of the grammar compiler is started."""

from __future__ import annotations

import ctypes
import sys

import pytest

from actors.generation.grammar.prover import Bounds, Prover
from actors.generation.grammar.tokens import Tokens

FORKS: list[int] = []
NOTED = ctypes.CFUNCTYPE(None)(lambda: FORKS.append(1))
"""Kept for ever, as the registration is."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's own name for registering fork handlers")
async def test_starting_the_child_runs_no_fork_handlers(starter_tokens: Tokens) -> None:
    """BLAS has handlers that wait for its threads, which may be in a forward pass: the scheduler hung in them."""
    nothing = ctypes.CFUNCTYPE(None)()
    libc = ctypes.CDLL(None)
    assert libc.__register_atfork(NOTED, nothing, nothing, None) == 0
    FORKS.clear()
    prover = Prover(starter_tokens, Bounds())
    await prover.start()
    await prover.stop()
    assert (prover.starts, FORKS) == (1, [])
