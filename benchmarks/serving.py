"""Troupe beside mlx_lm.server and the bare step loop: one run, all sides in turn, repeated, medians and ratios.

Each repetition starts every side afresh, measures it and stops it, so that no side idles beside another one; the
order turns round from one repetition to the next.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import psutil

from actors import blas
from benchmarks import bare, models, peers, report
from benchmarks.figures import Sample
from benchmarks.footprint import Footprint, watch
from benchmarks.measures import MEASURES, Bench, warm_up
from benchmarks.models import Subject, subject
from benchmarks.prompts import Prompts

_SETTLE_S = 3.0
"""Between the last request and the look at an idle server."""

_LISTEN_S = 1.0
"""How long to listen for other programs before a side starts."""

_ONLY = (*MEASURES, "footprint")


@dataclass
class Results:
    """What one run collects."""

    samples: list[Sample] = field(default_factory=list)
    footprints: dict[str, list[Footprint]] = field(default_factory=dict)
    """By side."""
    failures: list[str] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    """Per cent of all cores that other programs used, before each side started."""

    def add(self, model: str, measure: str, side: str, figures: dict[str, float]) -> None:
        self.samples += [Sample(model, measure, side, figure, value) for figure, value in figures.items()]
        for figure, value in figures.items():
            _say(f"  {side}: {figure}: {report.number(value)}" if value == value else f"  {side}: {figure}: none")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns 0 when every measure gave figures, else 1."""
    options = _options(arguments)
    results = Results()
    with tempfile.TemporaryDirectory(prefix="troupe-bench-") as scratch:
        for name in options.model:
            _compare(subject(name, Path(scratch)), options, results)
    section = _section(results, arguments)
    print(section)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        options.write.write_text(report.replace_section(page, section), encoding="utf-8")
    return 1 if results.failures else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", nargs="+", choices=("starter", "tiny"), default=["starter", "tiny"])
    parser.add_argument("--only", nargs="+", choices=_ONLY, help="measure nothing else")
    parser.add_argument("--repeats", type=_positive, metavar="N", help="repetitions of everything, 3 if unset")
    parser.add_argument(
        "--tokens", type=_positive, default=64, metavar="N", help="tokens of an answer in throughput runs"
    )
    parser.add_argument("--quick", action="store_true", help="one repetition, fewer requests, a shorter idle look")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables into this page, between its marks")
    options = parser.parse_args(arguments)
    known = {"footprint", *(measure for model in options.model for measure in models.MEASURES[model])}
    if nowhere := [name for name in options.only or () if name not in known]:
        parser.error(f"not measured on {' and '.join(options.model)}: {', '.join(nowhere)}")
    options.only = options.only or list(_ONLY)
    options.repeats = options.repeats or (1 if options.quick else 3)
    return options


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("should be 1 or more")
    return value


def _compare(target: Subject, options: argparse.Namespace, results: Results) -> None:
    measures = [name for name in target.measures if name in options.only]
    look = "footprint" in options.only and target.name == options.model[0]
    if not measures and not look:
        return
    for repeat in range(options.repeats):
        order = list(peers.SIDES)[:: 1 if repeat % 2 == 0 else -1]
        if "throughput" in measures:
            _bare(target, options, results, repeat)
        for side in order:
            _say(f"{target.name}, repetition {repeat + 1} of {options.repeats}: {side}")
            results.noise.append(psutil.cpu_percent(_LISTEN_S))
            with peers.SIDES[side](target.folder, target.rows) as server:
                # Every side of a repetition gets the same prompts.
                bench = Bench(
                    peers.client(server),
                    Prompts(target.folder, repeat + 1),
                    target.streams,
                    options.tokens,
                    options.quick,
                )
                _measure(bench, target.name, side, measures, results)
                if look and repeat == 0:
                    time.sleep(_SETTLE_S)
                    results.footprints[side] = watch(server.family(), 5 if options.quick else 20)


def _bare(target: Subject, options: argparse.Namespace, results: Results, repeat: int) -> None:
    _say(f"{target.name}, repetition {repeat + 1} of {options.repeats}: {report.BARE}")
    prompts = Prompts(target.folder, repeat + 1)
    rates = bare.measure(
        target.folder, [prompts.short() for _ in range(max(target.streams))], target.streams, options.tokens
    )
    results.add(target.name, "throughput", report.BARE, rates)


def _measure(bench: Bench, model: str, side: str, measures: Sequence[str], results: Results) -> None:
    asyncio.run(warm_up(bench))
    for name in measures:
        try:
            results.add(model, name, side, asyncio.run(MEASURES[name](bench)))
        except (ValueError, TimeoutError) as error:
            # A side that fails a measure is a result too; the others go on.
            results.failures.append(f"{model}, {name}, {side}: {error or 'no answer in time'}")
            _say(f"  FAILED {results.failures[-1]}")


def _section(results: Results, arguments: Sequence[str] | None) -> str:
    command = shlex.join(["python", "-m", "benchmarks", *(sys.argv[1:] if arguments is None else arguments)])
    made = f"Made by `{command}` on {time.strftime('%Y-%m-%d')}: {_machine()}."
    if results.noise:
        made += f" Before the sides started, other programs kept the cores up to {max(results.noise):.0f} % busy."
    parts = [
        made,
        report.goals(results.samples, results.footprints.get(report.OURS, [])),
        report.tables(results.samples),
    ]
    for side, footprints in results.footprints.items():
        parts.append(f"### {side}: idle processes\n\n{report.footprint_table(footprints)}")
    if results.failures:
        parts.append("### Failed\n\n" + "\n".join(f"- {failure}" for failure in results.failures))
    return "\n\n".join(part for part in parts if part)


def _machine() -> str:
    backend = "MLX on the CPU" if blas.runs_on_cpu() else "MLX on a GPU"
    library = "with OpenBLAS" if blas.runs_on_cpu() and blas.openblas() else ""
    versions = ", ".join(f"{name} {version(name)}" for name in ("mlx", "mlx-lm", "ray"))
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {backend} {library}".strip()
    return f"{machine}, Python {platform.python_version()}, {versions}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
