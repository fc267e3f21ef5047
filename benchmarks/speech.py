"""Speech beside mlx_whisper on the same weights and machine: whole clips, live sessions, silence, and what HTTP adds.

    python -m benchmarks.speech [--quick] [--model FOLDER]

Every figure is printed with its goal; the exit status is 0 when all goals are met. The clips are LibriVox recordings
(Debian package pocketsphinx-testdata); both engines run in float32, in turns, and each figure is the best of several.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from actors import cpu_kernels
from actors.models import starter_whisper
from actors.models.whisper_card import read_whisper_card
from actors.transcription.clip import Clip
from actors.transcription.decoder import WhisperDecoder
from actors.transcription.loading import load
from actors.transcription.options import TranscriptionOptions
from benchmarks.peers import engine_environment
from benchmarks.prefix import Report
from tests.support.server import Server, run_server
from tests.support.sound import LIBRIVOX, NO_SPEECH, clips, pcm16

ROUTE = "/v1/audio/transcriptions"
GREEDY = {"temperature": "0"}
TAKE_S = 62
RATE = 16_000
MOST_OF_PEER = 0.9
MOST_OF_TAKE = 1 / 3
MOST_SILENCE_MS = 100.0
MOST_OVERHEAD_MS = 30.0


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    repeats: int
    long: bool
    """Whether the long take is compared in process too."""


FULL = Scale(repeats=5, long=True)
QUICK = Scale(repeats=2, long=False)


def take(seconds: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Speech of that length."""
    whole = np.concatenate(clips() * 4)
    return whole[: round(seconds * RATE)]


def best(work: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest run, after one that does not count."""
    work()
    found: list[float] = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


def engines(folder: Path) -> tuple[Callable[[Any], str], Callable[[Any], str]]:
    """Ours and mlx_whisper's, as functions from samples to text, on one set of weights."""
    card = read_whisper_card(folder, folder.name)
    loaded = load(card, "float32")
    decoder = WhisperDecoder(loaded)
    peer = importlib.import_module("mlx_whisper.transcribe")
    peer.ModelHolder.model, peer.ModelHolder.model_path = loaded.model, str(folder)

    def ours(samples: Any) -> str:
        clip = Clip(card.sizes["n_mels"], TranscriptionOptions(temperatures=(0.0,)))
        clip.feed(samples)
        clip.finish()
        while clip.waiting:
            clip.advance(decoder, lambda: True)
        return clip.text

    def theirs(samples: Any) -> str:
        return peer.transcribe(samples, path_or_hf_repo=str(folder), fp16=False, temperature=0.0)["text"]

    return ours, theirs


def compare(report: Report, folder: Path, scale: Scale) -> None:
    """Wall time of whole clips beside mlx_whisper."""
    # As the transcriber's engine does; mlx_whisper calls none of the functions that this is about.
    cpu_kernels.activate()
    ours, theirs = engines(folder)
    for seconds in (5, TAKE_S) if scale.long else (5,):
        samples = take(seconds)
        same = ours(samples) == theirs(samples)
        mine, peer = best(lambda: ours(samples), scale.repeats), best(lambda: theirs(samples), scale.repeats)  # noqa: B023
        report.add(f"{seconds} s clip, ours", mine, unit=" s")
        report.add(f"{seconds} s clip, mlx_whisper", peer, unit=" s")
        report.add(f"{seconds} s clip, ours / mlx_whisper", mine / peer, MOST_OF_PEER)
        print(f"{seconds} s clip, same text: {'yes' if same else 'no'}", flush=True)


async def serve(report: Report, server: Server, scale: Scale) -> None:
    """Silence, overhead and a live session on a real server."""
    async with server.http() as http:
        await _post(http, take(5))
        silent = [await _timed(http, np.zeros(5 * RATE, np.float32), vad="true") for _ in range(scale.repeats)]
        report.add("silent take, answered", min(wall for wall, _ in silent), MOST_SILENCE_MS, " ms")
        spoken = [await _timed(http, take(5)) for _ in range(scale.repeats)]
        overhead = statistics.median(wall - answer["mlx_bun"]["timings"]["transcribe_ms"] for wall, answer in spoken)
        report.add("5 s clip, beside the transcription", overhead, MOST_OVERHEAD_MS, " ms")
        whole, _ = await _timed(http, take(TAKE_S))
        finish = await _session(http, take(TAKE_S))
        report.add(f"{TAKE_S} s take, one-shot", whole / 1000, unit=" s")
        report.add(f"{TAKE_S} s take, finish / one-shot", finish / whole, MOST_OF_TAKE)


async def _post(http: httpx.AsyncClient, samples: Any, **fields: str) -> dict[str, Any]:
    answer = await http.post(ROUTE, files={"file": ("take.wav", pcm16(samples))}, data={**GREEDY, **fields})
    answer.raise_for_status()
    return answer.json()


async def _timed(http: httpx.AsyncClient, samples: Any, **fields: str) -> tuple[float, dict[str, Any]]:
    """Milliseconds, and the answer."""
    started = time.perf_counter()
    answer = await _post(http, samples, **fields)
    return (time.perf_counter() - started) * 1000, answer


async def _session(http: httpx.AsyncClient, samples: Any) -> float:
    """Milliseconds from the last chunk's receipt to the text, of a take that is sent as fast as it is spoken."""
    opened = await http.post("/v1/audio/sessions", json={"temperature": 0})
    opened.raise_for_status()
    path = f"/v1/audio/sessions/{opened.json()['id']}"
    started = time.perf_counter()
    for at in range(0, len(samples), 2 * RATE):
        await asyncio.sleep(max(0.0, at / RATE - (time.perf_counter() - started)))
        chunk = samples[at : at + 2 * RATE].astype("<f4").tobytes()
        receipt = await http.post(f"{path}/audio", content=chunk, headers={"content-type": "audio/pcm;rate=16000"})
        receipt.raise_for_status()
    over = time.perf_counter()
    (await http.post(f"{path}/finish", timeout=600)).raise_for_status()
    return (time.perf_counter() - over) * 1000


def main() -> int:
    """Run everything; 1 when a goal is missed, 2 when there is nothing to listen to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats, and no long clip in process")
    parser.add_argument("--model", type=Path, help="folder of a Whisper checkpoint; the speech starter without it")
    options = parser.parse_args()
    environment = engine_environment()
    if dict(os.environ) != environment:
        # A library is preloaded before a process begins.
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.speech", *sys.argv[1:]], environment)
    if not LIBRIVOX.is_dir():
        print(NO_SPEECH, file=sys.stderr)
        return 2
    folder = options.model or starter_whisper.ensure()
    report, scale = Report(), QUICK if options.quick else FULL
    compare(report, folder, scale)
    with run_server({"transcription": {"model": str(folder), "resident": True}}) as server:
        asyncio.run(serve(report, server, scale))
    return 0 if report.met else 1


if __name__ == "__main__":
    sys.exit(main())
