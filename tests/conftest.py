"""Fixtures that several folders use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

from tests.support import checkpoints

# Machines are noisy: no test measures time.
hypothesis.settings.register_profile("troupe", deadline=None)
# A gate says the same twice; new examples are hunted for by people. And a busy machine is no fault of a test's.
hypothesis.settings.register_profile(
    "gate", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "troupe"))

KINDS: dict[str, Callable[[Path], Path]] = {
    "llama": checkpoints.tiny_llama,
    "sliding": checkpoints.tiny_sliding,
    "hybrid": checkpoints.tiny_hybrid,
    "mamba": checkpoints.tiny_mamba,
    "convolution": checkpoints.tiny_convolution,
    "moe": checkpoints.tiny_moe,
}


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a tiny checkpoint by the kind of its caches; each is made once a session."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = KINDS[kind](tmp_path_factory.mktemp(kind))
        return made[kind]

    return make
