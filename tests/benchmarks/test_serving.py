"""benchmarks/serving.py: its command line and its page."""

from __future__ import annotations

import pytest

from benchmarks.figures import Sample
from benchmarks.footprint import Footprint
from benchmarks.report import OURS, PEER
from benchmarks.serving import Results, _options, _section


def test_everything_is_measured_unless_told_otherwise() -> None:
    options = _options([])
    assert options.model == ["starter", "tiny"]
    assert options.repeats == 3
    assert {"throughput", "idle", "burst", "stall", "joint", "prefix", "footprint"} == set(options.only)


def test_quick_means_once() -> None:
    assert _options(["--quick"]).repeats == 1
    assert _options(["--quick", "--repeats", "2"]).repeats == 2


@pytest.mark.parametrize(
    "arguments",
    [["--only", "burst", "--model", "starter"], ["--only", "noise"], ["--repeats", "0"], ["--tokens", "-1"]],
)
def test_what_cannot_be_measured_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _options(arguments)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_page_says_which_command_made_it_and_what_failed() -> None:
    results = Results(
        samples=[Sample("tiny", "burst", side, "64 connections at once: answered", 64) for side in (OURS, PEER)],
        footprints={OURS: [Footprint("Ingress", 1, 2, 200, 150)]},
        failures=["tiny, stall, mlx_lm.server: no answer in time"],
        noise=[1.0, 37.2],
    )
    page = _section(results, ["--model", "tiny"])
    assert "`python -m benchmarks --model tiny`" in page
    assert "| tiny: answered of 64 connections at once | >= 64 | 64 | yes |" in page
    assert "other programs kept the cores up to 37 % busy" in page
    assert "### tiny: burst" in page
    assert "### Troupe: idle processes" in page
    assert "- tiny, stall, mlx_lm.server: no answer in time" in page


def test_figures_become_samples_one_each() -> None:
    results = Results()
    results.add("tiny", "burst", OURS, {"a": 1.0, "b": float("nan")})
    assert results.samples[0] == Sample("tiny", "burst", OURS, "a", 1.0)
    assert [sample.figure for sample in results.samples] == ["a", "b"]
