"""Tables from samples. Pure."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Sample
from benchmarks.footprint import Footprint

BEGIN = "<!-- figures: begin -->"
END = "<!-- figures: end -->"

OURS, PEER, BARE = "Troupe", "mlx_lm.server", "bare loop"
_SIDES = (OURS, PEER, BARE)


def medians(samples: Sequence[Sample]) -> dict[tuple[str, str, str], float]:
    """The median of each figure, by (model, side, figure). Samples that are no number are left out."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for sample in samples:
        if not math.isnan(sample.value):
            found.setdefault((sample.model, sample.side, sample.figure), []).append(sample.value)
    return {key: median(values) for key, values in found.items()}


def tables(samples: Sequence[Sample]) -> str:
    """One table for each model and measure: medians, spread (least to greatest), ratios."""
    parts = []
    for model, measure in dict.fromkeys((sample.model, sample.measure) for sample in samples):
        chosen = [sample for sample in samples if (sample.model, sample.measure) == (model, measure)]
        parts.append(f"### {model}: {measure}\n\n{_table(chosen)}")
    return "\n\n".join(parts)


def _table(samples: Sequence[Sample]) -> str:
    sides = [side for side in _SIDES if any(sample.side == side for sample in samples)]
    ratios = [side for side in sides if side != OURS and OURS in sides]
    head = ["figure", *sides, *(f"{OURS} / {side}" for side in ratios)]
    rows = [head, ["-"] + ["-:"] * (len(head) - 1)]
    for figure in _in_order(samples):
        values = {side: _values(samples, side, figure) for side in sides}
        cells = [_cell(values[side]) for side in sides]
        rows.append([figure, *cells, *(_ratio(values[OURS], values[side]) for side in ratios)])
    return _markdown(rows)


def _in_order(samples: Sequence[Sample]) -> list[str]:
    """Each figure once; those of one subject (what comes before the colon) stand together."""
    figures = dict.fromkeys(sample.figure for sample in samples)
    subjects = list(dict.fromkeys(figure.partition(":")[0] for figure in figures))
    return sorted(figures, key=lambda figure: subjects.index(figure.partition(":")[0]))


def _values(samples: Sequence[Sample], side: str, figure: str) -> list[float]:
    return [s.value for s in samples if s.side == side and s.figure == figure and not math.isnan(s.value)]


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    if len(values) == 1 or max(values) == min(values):
        return number(values[0])
    return f"{number(median(values))} ({number(min(values))} to {number(max(values))})"


def _ratio(ours: Sequence[float], other: Sequence[float]) -> str:
    return f"{median(ours) / median(other):.2f}" if ours and other and median(other) else ""


def number(value: float) -> str:
    """Three digits that count."""
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure to reach."""

    model: str
    what: str
    of: str
    """Figure of Troupe."""
    against: tuple[str, str] | None
    """Side and figure it is divided by; None when it stands alone."""
    better: str
    """`>=` or `<=`."""
    limit: float


_COMPARE: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}
_IDLE = "short prompt, idle server: first token, median, ms"

GOALS = (
    Goal("starter", "8 streams, decode phase / bare loop", "8 streams: decode phase, tokens/s",
         (BARE, "8 streams: decode phase, tokens/s"), ">=", 0.97),
    Goal("starter", "8 streams, whole run / mlx_lm.server", "8 streams: whole run, tokens/s",
         (PEER, "8 streams: whole run, tokens/s"), ">=", 1.1),
    Goal("starter", "1 stream, whole run / mlx_lm.server", "1 stream: whole run, tokens/s",
         (PEER, "1 stream: whole run, tokens/s"), ">=", 1.0),
    Goal("tiny", "1 stream, whole run / mlx_lm.server", "1 stream: whole run, tokens/s",
         (PEER, "1 stream: whole run, tokens/s"), ">=", 1.0),
    Goal("tiny", "8 streams, whole run / mlx_lm.server", "8 streams: whole run, tokens/s",
         (PEER, "8 streams: whole run, tokens/s"), ">=", 1.5),
    Goal("tiny", "32 streams, whole run / mlx_lm.server", "32 streams: whole run, tokens/s",
         (PEER, "32 streams: whole run, tokens/s"), ">=", 1.5),
    Goal("tiny", "answered of 64 connections at once", "64 connections at once: answered", None, ">=", 64),
    Goal("starter", "running stream's longest wait while a long prompt joins, ms",
         "long prompt joins: longest wait of the running stream, ms", None, "<=", 500),
    Goal("starter", "first token of the first of four long prompts / alone",
         "four long prompts at once: first of the first / alone", None, "<=", 1.3),
    Goal("starter", "first token of a long prompt with one more turn, warm / cold",
         "long prompt with one more turn: warm / cold", None, "<=", 0.1),
)  # fmt: skip
LATE_MS = 15.0
"""How much later than mlx_lm.server's the first token of a short prompt on an idle server may come."""
IDLE_CPU = 10.0
"""Per cent of a core that all processes but the scheduler's may use together while nobody asks."""
SCHEDULER = "GenerationScheduler"


def goals(samples: Sequence[Sample], footprints: Sequence[Footprint]) -> str:
    """The figures to reach, what was measured, and whether that is enough. Those not measured are left out."""
    known = medians(samples)
    rows = [["goal", "limit", "measured", "reached"], ["-", "-:", "-:", "-"]]
    for goal in GOALS:
        value = known.get((goal.model, OURS, goal.of))
        divisor = known.get((goal.model, *goal.against)) if goal.against else 1.0
        if value is not None and divisor:
            rows.append(_verdict(f"{goal.model}: {goal.what}", goal.better, goal.limit, value / divisor))
    for model in ("starter", "tiny"):
        ours, theirs = known.get((model, OURS, _IDLE)), known.get((model, PEER, _IDLE))
        if ours is not None and theirs is not None:
            what = f"{model}: first token on an idle server, later than mlx_lm.server's by, ms"
            rows.append(_verdict(what, "<=", LATE_MS, ours - theirs))
    if footprints:
        others = sum(one.cpu_percent for one in footprints if one.name != SCHEDULER)
        rows.append(_verdict("idle processor time of all but the scheduler, % of a core", "<=", IDLE_CPU, others))
    return _markdown(rows) if len(rows) > 2 else ""


def _verdict(what: str, better: str, limit: float, value: float) -> list[str]:
    return [what, f"{better} {limit:g}", number(value), "yes" if _COMPARE[better](value, limit) else "no"]


def footprint_table(footprints: Sequence[Footprint]) -> str:
    """Processes by name, the scheduler's apart from the sum of all others."""
    rows = [["process", "number", "idle CPU, % of a core", "RSS, MB", "PSS, MB"], ["-", "-:", "-:", "-:", "-:"]]
    rows += [_footprint_row(one) for one in footprints]
    others = [one for one in footprints if one.name != SCHEDULER]
    if len(others) < len(footprints):
        total = Footprint(
            "**all but the scheduler**",
            sum(one.processes for one in others),
            sum(one.cpu_percent for one in others),
            sum(one.rss_mb for one in others),
            sum(one.pss_mb for one in others),
        )
        rows.append(_footprint_row(total))
    return _markdown(rows)


def _footprint_row(one: Footprint) -> list[str]:
    return [one.name, str(one.processes), f"{one.cpu_percent:.1f}", f"{one.rss_mb:.0f}", f"{one.pss_mb:.0f}"]


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def replace_section(page: str, section: str) -> str:
    """`page` with everything between the two marks replaced.

    Raises:
        ValueError: the marks are not there, once each and in order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in after or END in after:
        raise ValueError(f"the page should hold {BEGIN} and {END}, once each")
    return f"{before}{BEGIN}\n\n{section.strip()}\n\n{END}{after}"
