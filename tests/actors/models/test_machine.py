from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors.models import machine


def test_this_machine_has_a_chip_ram_and_bandwidth() -> None:
    here = machine.this_machine()
    assert here.chip
    assert here.ram_bytes == psutil.virtual_memory().total
    assert here.bandwidth_gbs > 0


def test_the_processor_is_named_as_linux_names_it(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n")
    assert machine._linux_chip(cpuinfo) == "Some CPU @ 2 GHz"
    assert machine._linux_chip(tmp_path / "absent") == platform.machine()


def test_an_apple_chip_is_found_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*arguments: Any, **options: Any) -> Any:
        return subprocess.CompletedProcess([], 0, stdout="Apple M4 Pro\n")

    monkeypatch.setattr(machine.subprocess, "run", run)
    monkeypatch.setattr(machine.sys, "platform", "darwin")
    here = machine.this_machine.__wrapped__()
    assert (here.chip, here.bandwidth_gbs) == ("M4 Pro", 273)
