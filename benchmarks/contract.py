"""What the features of a request cost: the same eight streams with a feature on and off, in turn, on one server.

Every repetition runs plain streams first, then each feature, then plain ones again, so that a machine that gets slower
meanwhile is seen in both. A feature's figure is its rate over the mean of the plain runs around it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median

from benchmarks import peers, report
from benchmarks.client import Client, Fields, user
from benchmarks.figures import whole_rate
from benchmarks.measures import Bench, warm_up
from benchmarks.models import subject
from benchmarks.prompts import Prompts

STREAMS = 8
FIRST_USES = 7
_PAUSE_S = 0.3

BEGIN, END = "<!-- contract: begin -->", "<!-- contract: end -->"

_SCORED = {"repetition_penalty": 1.1, "presence_penalty": 0.3, "frequency_penalty": 0.2, "top_logprobs": 5}
_DRAWN = {"temperature": 0.8, "top_p": 0.9, "min_p": 0.02, "seed": 7}


def _schema(name: str) -> Fields:
    """Eighty integers: an answer that does not end before its budget."""
    schema = {
        "type": "object",
        "properties": {name: {"type": "array", "items": {"type": "integer"}, "minItems": 80}},
        "required": [name],
        "additionalProperties": False,
    }
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "numbers", "schema": schema}}}


def _ordinary(name: str) -> Fields:
    """A schema as applications have it."""
    schema = {
        "type": "object",
        "properties": {
            name: {"type": "string"},
            "age": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 4},
            "address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                "required": ["street", "city"],
            },
        },
        "required": [name, "age"],
    }
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}}


_MIXED: Sequence[Fields] = (
    {},
    _SCORED,
    _schema("values"),
    _DRAWN,
    {**_DRAWN, "xtc_probability": 0.3},
    {**_DRAWN, "hlg": {"enabled": True}},
    {"logit_bias": {"17": -5, "99": 2}},
    {**_schema("values"), **_SCORED},
)

FEATURES: Mapping[str, tuple[Sequence[Fields], float]] = {
    "penalties and log-probabilities": ([_SCORED] * STREAMS, 0.95),
    "json_schema": ([_schema("values")] * STREAMS, 0.90),
    "a different mix of features in each": (_MIXED, 0.90),
}
"""Fields of each stream, and the least part of the plain rate to reach."""
FIRST_USE_MS = 50.0
"""How much later the first token may come when the grammar of an ordinary schema is used for the first time."""


async def _rate(client: Client, prompts: Prompts, tokens: int, more: Sequence[Fields]) -> float:
    replies = await client.chats([[user(prompts.short())] for _ in range(STREAMS)], tokens, more)
    for reply in replies:
        if not reply.whole or not reply.times:
            raise ValueError(f"a stream failed: {reply.status} {reply.error or 'no text'}")
    return whole_rate(replies)


async def _rates(client: Client, prompts: Prompts, tokens: int) -> dict[str, float]:
    """Each feature's rate over the plain rate."""
    found: dict[str, float] = {}
    plain: Sequence[Fields] = [{}] * STREAMS
    before = await _rate(client, prompts, tokens, plain)
    for name, (more, _) in FEATURES.items():
        rate = await _rate(client, prompts, tokens, more)
        after = await _rate(client, prompts, tokens, plain)
        found[name] = rate / mean([before, after])
        before = after
    return found


async def _first_use(client: Client, prompts: Prompts, repeat: int) -> float:
    """Milliseconds that a schema's first use adds to the first token, as a difference of medians."""
    waits: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(FIRST_USES):
        for new in (False, True):
            await asyncio.sleep(_PAUSE_S)
            more = _ordinary(f"name_{repeat}_{turn}") if new else {}
            reply = await client.chat([user(prompts.short())], 8, more)
            waits[new].append(1000 * reply.ttft_s)
    return median(waits[True]) - median(waits[False])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns 0 when every goal was reached."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contract", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page, between its marks")
    options = parser.parse_args(arguments)
    ratios: dict[str, list[float]] = {name: [] for name in FEATURES}
    first: list[float] = []
    with tempfile.TemporaryDirectory(prefix="troupe-bench-") as scratch:
        target = subject("starter", Path(scratch))
        with peers.SIDES[report.OURS](target.folder, target.rows) as server:
            for repeat in range(options.repeats):
                client, prompts = peers.client(server), Prompts(target.folder, repeat + 1)
                asyncio.run(_warm(client, prompts))
                for name, ratio in asyncio.run(_rates(client, prompts, options.tokens)).items():
                    ratios[name].append(ratio)
                    print(f"{name}: {ratio:.3f}", file=sys.stderr)
                first.append(asyncio.run(_first_use(client, prompts, repeat)))
                print(f"first use: {first[-1]:.1f} ms", file=sys.stderr)
    rows, reached = _table(ratios, first)
    print(rows)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        options.write.write_text(_replaced(page, rows), encoding="utf-8")
    return 0 if reached else 1


async def _warm(client: Client, prompts: Prompts) -> None:
    await warm_up(Bench(client, prompts, (STREAMS,), 8, True))
    for more, _ in FEATURES.values():
        await client.chats([[user(prompts.short())] for _ in range(STREAMS)], 8, more)


def _table(ratios: Mapping[str, Sequence[float]], first: Sequence[float]) -> tuple[str, bool]:
    rows: list[tuple[str, str, str, bool]] = []
    for name, values in ratios.items():
        least = FEATURES[name][1]
        rows.append((f"{name}, rate / plain", f">= {least:g}", _spread(values), median(values) >= least))
    rows.append(("first use of a schema: later first token, ms", f"<= {FIRST_USE_MS:g}", _spread(first),
                 median(first) <= FIRST_USE_MS))  # fmt: skip
    lines = ["| 8 streams on the starter | limit | measured (least to greatest) | reached |", "| - | -: | -: | - |"]
    lines += [f"| {what} | {limit} | {value} | {'yes' if ok else 'no'} |" for what, limit, value, ok in rows]
    return "\n".join(lines), all(ok for _, _, _, ok in rows)


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def _replaced(page: str, table: str) -> str:
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page should hold {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
