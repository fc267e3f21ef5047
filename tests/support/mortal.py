"""The company of tests/support/company.py in a process of its own, which can be killed at any moment."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.company import run_company


class Mortal:
    """A running one."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def slay(self) -> None:
        """SIGKILL: no farewell, no clean-up."""
        self.process.kill()
        self.process.wait()


@contextmanager
def mortal(args: Mapping[str, Any]) -> Iterator[Mortal]:
    """A company for a configuration's `args`; it is killed at the end, unless it was before."""
    command = [sys.executable, "-m", __name__, json.dumps(args)]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[2], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, "the company did not start"
            yield Mortal(process, url)
        finally:
            process.kill()


if __name__ == "__main__":
    with run_company(json.loads(sys.argv[1])) as company:
        print(company.url, flush=True)
        sys.stdin.read()  # until whoever started it is gone
