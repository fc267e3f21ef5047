"""What the scheduler and its grammar child say to each other: frames of a length and JSON over the child's pipes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """First frame to the child; answered by an empty verdict when it is ready."""

    tokenizer: str
    """xgrammar's serialized TokenizerInfo."""
    words: int
    """32-bit words of a mask."""
    memory_bytes: int
    """Address space the child may take beyond what it has when it is ready."""
    cpu_s: int
    """Processor seconds one constraint may take, in case nobody is left to stop the child."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer to one constraint."""

    problem: str | None = None
    """Why it cannot be served; None when it can."""


def frame(payload: bytes) -> bytes:
    """`payload` behind its length."""
    return LENGTH.pack(len(payload)) + payload
