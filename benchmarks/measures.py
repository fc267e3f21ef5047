"""The measures: each drives one running server and returns its figures by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.client import Client, Message, user
from benchmarks.figures import longest_gap, percentile, stream_figures
from benchmarks.prompts import Prompts
from benchmarks.stream import Reply

LONG = 1000
"""Tokens of a long prompt."""

_ATTEMPTS = 3
"""A small model may have no word to say to one of four prompts; then four others are sent."""

_PAUSE_S = 0.3
"""Between requests of a measure that wants an idle server."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a measure works with."""

    client: Client
    prompts: Prompts
    streams: tuple[int, ...]
    """How many streams run at once, one run each."""
    tokens: int
    """Tokens of one answer."""
    quick: bool
    """Fewer requests where the measure repeats itself."""

    def short(self) -> list[Message]:
        return [user(self.prompts.short())]

    def long(self) -> list[Message]:
        return [user(self.prompts.long(LONG))]


Figures = dict[str, float]
Measure = Callable[[Bench], Coroutine[Any, Any, Figures]]


async def warm_up(bench: Bench) -> None:
    """The first requests after a start, which pay for what is made once: kernels, buffers, measured rates."""
    _checked(await bench.client.chat(bench.short(), 8))
    _checked(await bench.client.chat(bench.long(), 8))
    for reply in await bench.client.chats([bench.short() for _ in range(max(bench.streams))], 8):
        _checked(reply)


async def throughput(bench: Bench) -> Figures:
    """Equal streams, all sent at once, each with a short prompt of its own."""
    figures: Figures = {}
    for count in bench.streams:
        replies = await bench.client.chats([bench.short() for _ in range(count)], bench.tokens)
        figures |= stream_figures(replies)
    return figures


async def idle(bench: Bench) -> Figures:
    """One short prompt at a time, with a pause before each."""
    waits = []
    for _ in range(5 if bench.quick else 15):
        await asyncio.sleep(_PAUSE_S)
        waits.append(_checked(await bench.client.chat(bench.short(), 4)).ttft_s)
    return {
        "short prompt, idle server: first token, median, ms": 1000 * median(waits),
        "short prompt, idle server: first token, p99, ms": 1000 * percentile(waits, 0.99),
    }


async def burst(bench: Bench) -> Figures:
    """64 connections at the same moment."""
    replies = await bench.client.chats([bench.short() for _ in range(64)], 16)
    answered = [reply for reply in replies if reply.whole]
    begin = min(reply.sent_at for reply in replies)
    return {
        "64 connections at once: answered": len(answered),
        "64 connections at once: refused by HTTP status": sum(reply.status not in (0, 200) for reply in replies),
        "64 connections at once: connection reset or never accepted": sum(reply.status == 0 for reply in replies),
        "64 connections at once: last answer after, s": max(reply.ended_at for reply in replies) - begin,
    }


async def stall(bench: Bench) -> Figures:
    """A stream runs; then a long prompt joins."""
    runner = await bench.client.start(bench.short(), 256)
    await runner.pieces(12)
    joiner = _checked(await bench.client.chat(bench.long(), 4))
    running = await runner.abandon()
    if not running.times or running.times[-1] < joiner.times[0]:
        raise ValueError("the running stream ended before the long prompt had joined")
    return {
        "long prompt joins: longest wait of the running stream, ms": 1000
        * longest_gap(running, joiner.sent_at, joiner.times[0]),
        "long prompt joins: its own first token, ms": 1000 * joiner.ttft_s,
    }


async def joint(bench: Bench) -> Figures:
    """A long prompt alone, then four at once."""
    alone = _checked(await bench.client.chat(bench.long(), 4)).ttft_s
    replies: list[Reply] = []
    for _ in range(_ATTEMPTS):
        replies = await bench.client.chats([bench.long() for _ in range(4)], 4)
        if all(reply.times for reply in replies):
            break
    waits = sorted(_checked(reply).ttft_s for reply in replies)
    return {
        "long prompt alone: first token, ms": 1000 * alone,
        "four long prompts at once: first token of the first, ms": 1000 * waits[0],
        "four long prompts at once: first token of the last, ms": 1000 * waits[-1],
        "four long prompts at once: first of the first / alone": waits[0] / alone,
    }


async def prefix(bench: Bench) -> Figures:
    """A long prompt, then the same conversation with one more turn."""
    opening = bench.long()
    cold = _checked(await bench.client.chat(opening, 16))
    turn = [*opening, {"role": "assistant", "content": cold.text}, user("And what came next?")]
    warm = _checked(await bench.client.chat(turn, 16))
    return {
        "long prompt: first token, cold, ms": 1000 * cold.ttft_s,
        "long prompt with one more turn: first token, warm, ms": 1000 * warm.ttft_s,
        "long prompt with one more turn: warm / cold": warm.ttft_s / cold.ttft_s,
        "long prompt with one more turn: cached tokens": warm.cached_tokens,
    }


MEASURES: dict[str, Measure] = {
    "throughput": throughput,
    "idle": idle,
    "burst": burst,
    "stall": stall,
    "joint": joint,
    "prefix": prefix,
}


def _checked(reply: Reply) -> Reply:
    if not reply.whole or not reply.times:
        raise ValueError(f"a request failed: {reply.status} {reply.error or 'no text'}")
    return reply
