"""The ceiling: the same streams without any server, in a process of its own.

Two loops. `BatchGenerator` is mlx-lm's own, which also computes log-probabilities of the whole vocabulary.
The plain loop only calls the model and takes the greatest logit of each row; nothing that answers tokens one step at a
time can be faster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import engine_environment

Rates = dict[str, float]


def measure(folder: Path, prompts: Sequence[str], streams: Sequence[int], tokens: int) -> Rates:
    """Run both loops in a subprocess with the engine's environment. Blocks until it is done.

    Args:
        folder: the checkpoint.
        prompts: at least as many short ones as the largest number of streams.
        streams: how many rows, one run each.
        tokens: tokens of a row.

    Raises:
        subprocess.CalledProcessError: it failed; its words are on stderr.
    """
    order = json.dumps({"folder": str(folder), "prompts": prompts, "streams": streams, "tokens": tokens})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bare"],
        input=order,
        env=engine_environment(),
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _run(folder: str, prompts: list[str], streams: list[int], tokens: int) -> Rates:
    from mlx_lm.utils import load

    loaded: Any = load(folder)
    model, tokenizer = loaded[0], loaded[1]
    rows = [
        tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True)
        for prompt in prompts
    ]
    _batch_generator(model, rows[:2], 4)
    rates: Rates = {}
    for count in streams:
        name = f"{count} stream{'s' if count > 1 else ''}"
        whole, decode = _batch_generator(model, rows[:count], tokens)
        rates[f"{name}: whole run, tokens/s"] = whole
        rates[f"{name}: decode phase, tokens/s"] = decode
        rates[f"{name}: decode phase without log-probabilities, tokens/s"] = _plain(model, rows[:count], tokens)
    return rates


def _batch_generator(model: Any, rows: list[list[int]], tokens: int) -> tuple[float, float]:
    """Tokens a second of the whole run, and of the time in which every row decoded."""
    from mlx_lm.generate import BatchGenerator

    generator = BatchGenerator(model, max_tokens=tokens, stop_tokens=[])
    begin = time.perf_counter()
    uids = generator.insert(rows)
    counts = dict.fromkeys(uids, 0)
    full_at, full_count = 0.0, 0
    full_end, end_count = 0.0, 0
    while min(counts.values()) < tokens:
        _, responses = generator.next()
        for response in responses:
            counts[response.uid] += 1
        if not full_at and min(counts.values()) > 0:
            full_at, full_count = time.perf_counter(), sum(counts.values())
        if not full_end and max(counts.values()) == tokens:
            full_end, end_count = time.perf_counter(), sum(counts.values())
    end = time.perf_counter()
    generator.close()
    return tokens * len(rows) / (end - begin), (end_count - full_count) / (full_end - full_at)


def _plain(model: Any, rows: list[list[int]], tokens: int) -> float:
    """Tokens a second of a pipelined greedy loop over rows whose prompts are already computed."""
    import mlx.core as mx
    from mlx_lm.generate import _merge_caches
    from mlx_lm.models.cache import make_prompt_cache

    caches = []
    for row in rows:
        cache = make_prompt_cache(model)
        model(mx.array([row]), cache=cache)
        mx.eval([layer.state for layer in cache])
        caches.append(cache)
    cache = caches[0] if len(rows) == 1 else _merge_caches(caches)
    current = mx.array([row[-1] for row in rows])
    begin = time.perf_counter()
    for _ in range(tokens):
        following = mx.argmax(model(current[:, None], cache=cache)[:, -1, :], axis=-1)
        mx.async_eval(following)
        current.tolist()
        current = following
    current.tolist()
    return tokens * len(rows) / (time.perf_counter() - begin)


if __name__ == "__main__":
    print(json.dumps(_run(**json.loads(sys.stdin.read()))))
