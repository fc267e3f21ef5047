"""Which kernels the CPU engine's BLAS is told to use."""

from __future__ import annotations

import pytest

from actors import blas
from actors.settings import GenerationSettings

SERVER = frozenset({"sse3", "avx", "avx2", "fma", "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"})
DESKTOP = frozenset({"sse3", "avx", "avx2", "fma"})


@pytest.mark.parametrize(
    ("picked", "features", "kernels"),
    [
        ("Prescott", SERVER, "SkylakeX"),
        ("Prescott", DESKTOP, "Haswell"),
        ("Nehalem", SERVER - {"avx512vl"}, "Haswell"),
        ("Prescott", frozenset({"sse3", "avx"}), None),
        ("Haswell", SERVER, None),
        ("SapphireRapids", SERVER, None),
        ("Zen", DESKTOP, None),
        ("", SERVER, None),
        ("neoversen1", frozenset[str](), None),
    ],
)
def test_a_processor_younger_than_the_library_gets_the_kernels_it_can_run(
    picked: str, features: frozenset[str], kernels: str | None
) -> None:
    assert blas.better_kernels(picked, features) == kernels


def test_the_users_own_choice_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "openblas", lambda: blas.OpenBlas("libopenblas.so.0", "Prescott"))
    monkeypatch.setattr(blas, "runs_on_cpu", lambda: True)
    monkeypatch.setattr(blas, "_processor_features", lambda: SERVER)
    monkeypatch.delenv(blas.CORE_TYPE, raising=False)
    environment = blas.engine_environment(GenerationSettings())
    assert (environment["LD_PRELOAD"], environment[blas.CORE_TYPE]) == ("libopenblas.so.0", "SkylakeX")
    assert blas.CORE_TYPE not in blas.engine_environment(GenerationSettings(blas="off"))
    monkeypatch.setenv(blas.CORE_TYPE, "Haswell")
    assert blas.CORE_TYPE not in blas.engine_environment(GenerationSettings())


def test_an_installed_openblas_says_what_it_picked() -> None:
    found = blas.openblas()
    assert found is None or found.name.startswith("lib")
