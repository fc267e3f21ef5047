"""One download in a process of its own, seen from the library. Blocks; runs in a thread."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from actors.library.messages import Progress

log = logging.getLogger("troupe.library")


class FetchFailed(Exception):
    """The download has ended without all files; the message says why."""


class Fetcher:
    """The process that downloads one repository. `run` in one thread, `stop` from any."""

    def __init__(self, repository: str, token: str | None) -> None:
        self._repository = repository
        self._order = json.dumps({"repository": repository, "token": token}) + "\n"
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def run(self, report: Callable[[Progress], None]) -> None:
        """Download; returns when every file is there.

        Args:
            report: called in this thread, several times a second.

        Raises:
            FetchFailed: it has ended otherwise, also by `stop`.
        """
        with _launch() as process:
            self._process = process
            if self._stopped:
                process.kill()
            try:
                last = self._follow(process, report)
            finally:
                process.kill()
        if last.get("done") is not True:
            raise FetchFailed(str(last.get("error") or "the process that downloaded it died"))

    def stop(self) -> None:
        """End the process. What is on disk stays there. May be repeated."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()

    def _follow(self, process: subprocess.Popen[str], report: Callable[[Progress], None]) -> dict[str, Any]:
        """The last line that is no progress; empty when the process ends without one."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._order)
            process.stdin.flush()
        except BrokenPipeError:
            return {}
        for line in process.stdout:
            try:
                content = json.loads(line)
                if "done" in content or "error" in content:
                    return content
                report(Progress(**content))
            except (ValueError, TypeError):
                log.warning("the download of %s says nonsense: %.200s", self._repository, line)
        return {}


def _launch() -> subprocess.Popen[str]:
    """The token goes through the pipe: command lines and environments can be read by others."""
    return subprocess.Popen(
        [sys.executable, "-m", "actors.library.fetching"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
