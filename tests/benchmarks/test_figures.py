"""benchmarks/figures.py."""

from __future__ import annotations

import math

import pytest

from benchmarks.figures import decode_rate, longest_gap, percentile, stream_figures, whole_rate
from benchmarks.stream import Reply


def reply(*times: float, sent_at: float = 0.0, tokens: int | None = None, error: str = "") -> Reply:
    ended_at = times[-1] if times else sent_at
    return Reply(sent_at, ended_at, 200, error, times, "x" * len(times), 0, 0, len(times) if tokens is None else tokens)


def test_the_whole_run_lasts_from_the_first_request_to_the_last_end() -> None:
    assert whole_rate([reply(1, 2, 3, sent_at=1.0), reply(2, 4, 5, sent_at=2.0)]) == 6 / 4


def test_the_decode_phase_is_while_every_stream_runs() -> None:
    # Both run from 2 (the second's first piece) to 4 (the first's last piece).
    assert decode_rate([reply(1, 2, 3, 4), reply(2, 3, 4, 5, 6)]) == 4 / 2


def test_a_piece_counts_as_its_share_of_the_tokens() -> None:
    assert decode_rate([reply(0, 1, 2, 3, tokens=8)]) == 3 * 2 / 3


def test_streams_that_never_ran_together_have_no_decode_phase() -> None:
    assert math.isnan(decode_rate([reply(1, 2), reply(3, 4)]))


def test_the_longest_gap_counts_waits_that_reach_into_the_window() -> None:
    running = reply(0, 5, 6, 8, 20)
    assert longest_gap(running, 4.5, 7.0) == 5
    assert longest_gap(running, 5.5, 7.0) == 2
    assert math.isnan(longest_gap(running, 30, 40))


def test_percentiles_are_interpolated() -> None:
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([0, 10], 0.99) == pytest.approx(9.9)
    assert percentile([4], 0.99) == 4
    assert math.isnan(percentile([], 0.5))


def test_stream_figures_say_how_many_streams_there_were() -> None:
    figures = stream_figures([reply(1, 2), reply(1, 3)])
    assert figures["2 streams: first token, median, ms"] == 1000
    assert figures["2 streams: between tokens, p50, ms"] == 1500
    assert figures["2 streams: tokens a stream"] == 2
    assert "1 stream: whole run, tokens/s" in stream_figures([reply(1, 2)])


@pytest.mark.parametrize("failed", [reply(1, 2, error="reset"), reply()])
def test_a_failed_stream_spoils_the_run(failed: Reply) -> None:
    with pytest.raises(ValueError, match="a stream failed"):
        stream_figures([reply(1, 2), failed])
