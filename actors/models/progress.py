"""How far a transfer has come: a bar on a terminal, a few log lines elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

log = logging.getLogger("troupe.models")

Report = Callable[[int, int], None]
"""Called with (bytes done, bytes in all); both may grow, and the total may be 0 while it is not known."""


_LEAST_STEP = 25_000_000


@contextmanager
def transfer(label: str, *, bar: bool) -> Iterator[Report]:
    """Show one transfer while the block runs. With `bar` and a terminal on stderr it is drawn, else it is logged."""
    if bar and sys.stderr.isatty():
        from tqdm import tqdm

        with tqdm(desc=label, unit="B", unit_scale=True, unit_divisor=1000, dynamic_ncols=True) as drawn:
            yield partial(_draw, drawn)
    else:
        yield _Lines(label)


def _draw(drawn: Any, done: int, total: int) -> None:
    drawn.total = total or None
    drawn.update(done - drawn.n)


class _Lines:
    """Log a line whenever another tenth is done, and never for less than 25 MB."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._logged = 0

    def __call__(self, done: int, total: int) -> None:
        if done - self._logged >= max(_LEAST_STEP, total // 10):
            self._logged = done
            log.info("%s: %.0f of %.0f MB", self._label, done / 1e6, total / 1e6)


def logging_bar(label: str) -> type[tqdm]:
    """A tqdm class that logs its byte counts instead of drawing, for libraries that insist on a tqdm class."""
    return reporting_bar(_Lines(label))


def reporting_bar(report: Report) -> type[tqdm]:
    """A tqdm class that draws nothing and reports its byte counts."""
    from tqdm import tqdm

    class ReportingBar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **(kwargs | {"file": StringIO(), "disable": False}))

        def update(self, n: float | None = 1) -> bool | None:
            shown = super().update(n)
            if self.unit == "B":
                report(int(self.n), int(self.total or 0))
            return shown

    return ReportingBar
