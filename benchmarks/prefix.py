"""What the prompt cache saves and what it costs: first tokens from RAM and SSD beside cold ones, bytes a
turn, a drain, kills.

    python -m benchmarks.prefix [--quick] [--model MODEL]

Every figure is printed with its goal; the exit status is 0 when all goals are met. The servers are real ones on a
directory of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from transformers import AutoTokenizer

from actors.models import starter
from benchmarks.peers import mlx_lm_server
from tests.support.server import run_server

CHAT = "/v1/chat/completions"
WORDS = "the sea was calm and the light turned slowly over the stones of the old harbour while "


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    prompt_words: int
    repeats: int
    agents: int
    turns: int
    drain_prompts: int
    kills_s: tuple[float, ...]
    """How long after an answer the server is killed."""


FULL = Scale(prompt_words=1950, repeats=5, agents=8, turns=10, drain_prompts=12, kills_s=(0, 0.1, 0.3, 1))
QUICK = Scale(prompt_words=400, repeats=2, agents=3, turns=3, drain_prompts=4, kills_s=(0.1,))


class Report:
    """Figures and goals, as they come."""

    def __init__(self) -> None:
        self.met = True

    def add(self, name: str, value: float, goal: float | None = None, unit: str = "") -> None:
        """A figure; with a goal it must not be larger."""
        verdict = ""
        if goal is not None:
            self.met &= value <= goal
            verdict = f"   goal <= {goal:g}: {'met' if value <= goal else 'MISSED'}"
        print(f"{name}: {value:.4g}{unit}{verdict}", flush=True)


def settings(model: str, folder: Path) -> dict[str, Any]:
    return {
        "model": model,
        "ssd_cache": {"enabled": True, "dir": str(folder)},
        "generation": {"context_tokens": None},
    }


@asynccontextmanager
async def serving(model: str, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    with run_server(settings(model, folder)) as server:
        async with server.http() as http:
            await first_token(http, [{"role": "user", "content": "warm up"}])
            yield http


def text(words: int, number: int) -> str:
    """A text that begins with its number, so that no two share a prefix."""
    return f"Report {number}: " + (WORDS * (words // len(WORDS.split()) + 1))[: words * 5]


async def first_token(http: httpx.AsyncClient, messages: list[dict[str, str]], tokens: int = 1) -> tuple[float, str]:
    """Seconds until the first piece of an answer, and the answer."""
    body = {"messages": messages, "max_tokens": tokens, "temperature": 0, "stream": True}
    began, first, pieces = time.perf_counter(), None, []
    async with http.stream("POST", CHAT, json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:]).get("choices", ()):
                if choice["delta"].get("content") or choice["finish_reason"]:
                    first = first or time.perf_counter() - began
                    pieces.append(choice["delta"].get("content") or "")
    assert first is not None, "the answer was empty"
    return first, "".join(pieces)


async def stats(http: httpx.AsyncClient) -> dict[str, Any]:
    return (await http.get("/stats")).json()


async def flush(http: httpx.AsyncClient) -> dict[str, Any]:
    response = await http.post("/admin/cache/flush", timeout=300)
    assert response.status_code == 200, response.text
    return response.json()


def conversation(scale: Scale, number: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": text(scale.prompt_words, number)}]


@dataclass
class Turns:
    """First tokens of a long conversation's next turn, in seconds, and those turns."""

    cold: list[float] = field(default_factory=list)
    """Of turns as long as the others that nobody has sent before."""
    ram: list[float] = field(default_factory=list)
    longer: list[list[dict[str, str]]] = field(default_factory=list)


async def take_turns(http: httpx.AsyncClient, scale: Scale) -> Turns:
    """Begin conversations and go on with each at once."""
    found = Turns()
    for number in range(scale.repeats):
        turn = conversation(scale, number)
        _, answer = await first_token(http, turn, 8)
        turn = [*turn, {"role": "assistant", "content": answer}, {"role": "user", "content": WORDS * 2}]
        found.longer.append(turn)
        found.ram.append((await first_token(http, turn))[0])
        strange = conversation(scale, number + 1000)
        found.cold.append((await first_token(http, [*strange, *turn[1:]]))[0])
    return found


async def first_tokens(model: str, scale: Scale, folder: Path, report: Report) -> None:
    """The next turn of a long conversation: cold, from RAM, and from the SSD after a restart; and mlx_lm.server's."""
    async with serving(model, folder) as http:
        mine = await take_turns(http, scale)
        await flush(http)
    ssd: list[float] = []
    async with serving(model, folder) as http:
        # Another last question, so that the whole prompt is not known.
        for turn in mine.longer:
            ssd.append((await first_token(http, [*turn[:-1], {"role": "user", "content": "And then? " + WORDS}]))[0])
        figures = (await stats(http))["ssd_cache"]
        report.add("restored prefixes missing", scale.repeats - figures["restores"], 0)
        report.add("last restore", figures["restore_ms_last"], unit=" ms")
    with mlx_lm_server(checkpoint_folder(model), 8) as peer:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{peer.port}", timeout=300) as http:
            await first_token(http, [{"role": "user", "content": "warm up"}])
            theirs = await take_turns(http, scale)
    cold, their_cold = statistics.median(mine.cold), statistics.median(theirs.cold)
    report.add("first token, cold", cold, unit=" s")
    report.add("mlx_lm.server: first token, cold", their_cold, unit=" s")
    report.add("first token from RAM / cold", statistics.median(mine.ram) / cold, 1 / 20)
    report.add("mlx_lm.server: first token from RAM / cold", statistics.median(theirs.ram) / their_cold)
    report.add("first token from RAM / mlx_lm.server's", statistics.median(mine.ram) / statistics.median(theirs.ram))
    report.add("first token from SSD / cold", statistics.median(ssd) / cold, 1 / 10)


async def turns(model: str, scale: Scale, folder: Path, report: Report) -> None:
    """Agents that take turns: bytes written for a turn's tokens, and tokens computed."""
    async with serving(model, folder) as http:
        before = await stats(http)
        histories = [conversation(scale, number) for number in range(scale.agents)]
        sent: list[list[dict[str, str]]] = []
        for _ in range(scale.turns):
            sent += [list(history) for history in histories]
            answers = await asyncio.gather(*(first_token(http, history, 16) for history in histories))
            for history, (_, answer) in zip(histories, answers, strict=True):
                history += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Go on. " + WORDS}]
        await flush(http)
        after = await stats(http)
    scheduler, earlier = after["troupe"]["scheduler"], before["troupe"]["scheduler"]
    computed = scheduler["prompt_tokens"] - earlier["prompt_tokens"]
    generated = scheduler["generated_tokens"] - earlier["generated_tokens"]
    written = after["troupe"]["ssd_cache"]["written_bytes"] - before["troupe"]["ssd_cache"]["written_bytes"]
    checkpoint = checkpoint_folder(model)
    report.add("prompt tokens computed / distinct tokens", computed / distinct_tokens(checkpoint, sent), 1.05)
    per_token = bytes_per_token(checkpoint)
    report.add("bytes written / bytes of new tokens", written / ((computed + generated) * per_token), 1.1)


def checkpoint_folder(model: str) -> Path:
    return starter.ensure() if model == "starter" else Path(model)


def distinct_tokens(checkpoint: Path, prompts: Sequence[list[dict[str, str]]]) -> int:
    """Tokens that differ from all others in themselves or in what stands before them."""
    tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint)
    root: dict[int, Any] = {}
    count = 0
    for prompt in prompts:
        node = root
        for token in tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False):
            count += token not in node
            node = node.setdefault(token, {})
    return count


def bytes_per_token(checkpoint: Path) -> int:
    """Bytes of a token's keys and values in float32."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    return 2 * config["num_hidden_layers"] * config.get("num_key_value_heads", heads) * width * 4


async def drain(model: str, scale: Scale, folder: Path, report: Report) -> None:
    """Four streams while the writer works on a backlog, beside four streams while it has nothing to do."""
    async with serving(model, folder) as http:
        alone = await _rate(http, scale)
        for number in range(scale.drain_prompts):
            await first_token(http, conversation(scale, number + 5000))
        backlog = (await stats(http))["ssd_cache"]["pending_spill_bytes"]
        busy = await _rate(http, scale)
        left = (await stats(http))["ssd_cache"]["pending_spill_bytes"]
        began = time.perf_counter()
        await flush(http)
    report.add("backlog at the start", backlog / 1e6, unit=" MB")
    report.add("backlog after it", left / 1e6, unit=" MB")
    report.add("flush of the rest", time.perf_counter() - began, unit=" s")
    report.add("decoding slows while the writer drains", 1 - busy / alone, 0.05)


async def kills(model: str, scale: Scale, folder: Path, report: Report) -> None:
    """Every process killed at once, soon after an answer: how much of it the next server has to compute again."""
    for number, delay_s in enumerate(scale.kills_s):
        turn = conversation(scale, number)
        with run_server(settings(model, folder)) as server:
            async with server.http() as http:
                await first_token(http, [{"role": "user", "content": "warm up"}])
                whole, _ = await usage(http, turn)
                await asyncio.sleep(delay_s)
            for process in server.family():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        async with serving(model, folder) as http:
            _, cached = await usage(http, turn)
        lost = f"killed {delay_s * 1000:.0f} ms after an answer: tokens lost of {whole}"
        # A prompt's last token is always computed.
        report.add(lost, whole - 1 - cached)


async def usage(http: httpx.AsyncClient, messages: list[dict[str, str]]) -> tuple[int, int]:
    """Tokens of a prompt, and how many of them were known."""
    body = {"messages": messages, "max_tokens": 1, "temperature": 0}
    answer = await http.post(CHAT, json=body)
    answer.raise_for_status()
    used = answer.json()["usage"]
    return used["prompt_tokens"], used["prompt_tokens_details"]["cached_tokens"]


async def _rate(http: httpx.AsyncClient, scale: Scale) -> float:
    """Tokens a second of four streams."""
    tokens = 32 * scale.repeats
    began = time.perf_counter()
    await asyncio.gather(
        *(first_token(http, [{"role": "user", "content": f"Count from {n} on."}], tokens) for n in range(4))
    )
    return 4 * tokens / (time.perf_counter() - began)


PARTS: dict[str, Callable[[str, Scale, Path, Report], Any]] = {
    "first": first_tokens,
    "turns": turns,
    "drain": drain,
    "kills": kills,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="starter")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it works, not how well")
    parser.add_argument("--only", choices=sorted(PARTS), help="one part alone")
    options = parser.parse_args(arguments)
    report, scale = Report(), QUICK if options.quick else FULL
    for name, part in PARTS.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                asyncio.run(part(options.model, scale, Path(folder), report))
    return 0 if report.met else 1


if __name__ == "__main__":
    sys.exit(main())
