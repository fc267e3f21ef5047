"""Figures from replies. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.stream import Reply


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure, measured once."""

    model: str
    """`starter` or `tiny`."""
    measure: str
    """Heading it is reported under."""
    side: str
    """Who was measured."""
    figure: str
    """What was measured, with its unit."""
    value: float


def whole_rate(replies: Sequence[Reply]) -> float:
    """Tokens a second from the first request's leaving to the last answer's end."""
    begin = min(reply.sent_at for reply in replies)
    end = max(reply.ended_at for reply in replies)
    return sum(reply.completion_tokens for reply in replies) / (end - begin)


def decode_rate(replies: Sequence[Reply]) -> float:
    """Tokens a second while every stream runs: from the last first piece to the first last piece.

    A piece counts as its share of the stream's tokens, because a piece may carry more than one. NaN when the streams
    never ran together.
    """
    begin = max(reply.times[0] for reply in replies)
    end = min(reply.times[-1] for reply in replies)
    if end <= begin:
        return math.nan
    return sum(_tokens_within(reply, begin, end) for reply in replies) / (end - begin)


def _tokens_within(reply: Reply, begin: float, end: float) -> float:
    pieces = sum(begin < moment <= end for moment in reply.times)
    return pieces * reply.completion_tokens / len(reply.times)


def longest_gap(reply: Reply, begin: float, end: float) -> float:
    """The longest wait for a piece, in seconds, among the waits that overlap `begin` to `end`."""
    waits = zip(reply.times, reply.times[1:], strict=False)
    return max((later - earlier for earlier, later in waits if later > begin and earlier < end), default=math.nan)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of all values do not exceed, interpolated. NaN without values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def stream_figures(replies: Sequence[Reply]) -> dict[str, float]:
    """What a run of equal streams says about a server.

    Raises:
        ValueError: one of the streams failed or said nothing; its figures would not compare.
    """
    for reply in replies:
        if not reply.whole or not reply.times:
            raise ValueError(f"a stream failed: {reply.status} {reply.error or 'no text'}")
    streams = f"{len(replies)} stream{'s' if len(replies) > 1 else ''}"
    waits = [reply.ttft_s for reply in replies]
    gaps = [gap for reply in replies for gap in reply.gaps_s]
    return {
        f"{streams}: whole run, tokens/s": whole_rate(replies),
        f"{streams}: decode phase, tokens/s": decode_rate(replies),
        f"{streams}: first token, median, ms": 1000 * median(waits),
        f"{streams}: first token, p99, ms": 1000 * percentile(waits, 0.99),
        f"{streams}: between tokens, p50, ms": 1000 * percentile(gaps, 0.5),
        f"{streams}: between tokens, p99, ms": 1000 * percentile(gaps, 0.99),
        f"{streams}: tokens a stream": sum(reply.completion_tokens for reply in replies) / len(replies),
        f"{streams}: cached prompt tokens a stream": sum(reply.cached_tokens for reply in replies) / len(replies),
    }
