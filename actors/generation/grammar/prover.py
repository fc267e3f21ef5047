"""The scheduler's side of the grammar child: started on first use, stopped when a constraint takes too much."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

import actors
from actors.generation.grammar.constraint import Constraint
from actors.generation.grammar.tokens import Tokens
from actors.generation.grammar.wire import LENGTH, Verdict, Vocabulary, frame

START_S = 60.0
"""How long the child may take to import what it needs."""
LOOK_S = 0.05
"""How often its memory is looked at while it works."""


Child = subprocess.Popen[bytes]


class ChildLost(Exception):
    """The child died or had to be killed; `str()` says why."""


class ChildDied(ChildLost):
    """It ended by itself."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one constraint may cost."""

    seconds: float = 3.0
    """From asking to the verdict."""
    memory_bytes: int = 512 << 20
    """Beyond what the child holds anyway."""


class Prover:
    """Tries constraints out, one at a time. One event loop; the caller keeps calls apart.

    Args:
        tokens: the vocabulary.
        bounds: of each constraint.
    """

    def __init__(self, tokens: Tokens, bounds: Bounds) -> None:
        self._tokens = tokens
        self._bounds = bounds
        self._process: Child | None = None
        self.starts = 0
        """Children started so far."""

    async def prove(self, constraint: Constraint) -> Verdict:
        """What the child says. Cancelling kills it.

        Raises:
            ChildLost: this constraint, or something else, was the end of it; the next call starts another.
        """
        before = self.starts
        try:
            return await self._try(constraint)
        except ChildDied:
            if self.starts > before:
                raise
        # It may have died while it had nothing to do; only a fresh one's end is certainly this constraint's doing.
        return await self._try(constraint)

    async def _try(self, constraint: Constraint) -> Verdict:
        try:
            process = await self._running()
            return await self._ask(process, msgspec.json.encode(constraint), self._bounds.seconds, watched=True)
        except BaseException:
            await self.stop()
            raise

    async def start(self) -> None:
        """Start the child unless it runs. Cancelling kills it. Raises `ChildLost`, `OSError`."""
        try:
            await self._running()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Kill the child, if there is one. May be repeated."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await asyncio.to_thread(_bury, process)

    async def _running(self) -> Child:
        if self._process is not None and self._process.poll() is None:
            return self._process
        await self.stop()
        self._process = process = await asyncio.to_thread(_launch)
        self.starts += 1
        vocabulary = Vocabulary(
            await asyncio.to_thread(self._tokens.info.serialize_json),
            self._tokens.words,
            self._bounds.memory_bytes,
            int(self._bounds.seconds) + 2,
        )
        await self._ask(process, msgspec.json.encode(vocabulary), START_S, watched=False)
        return process

    async def _ask(self, process: Child, payload: bytes, seconds: float, watched: bool) -> Verdict:
        """The child's answer. A child that takes too much is killed, which also ends the thread that reads from it."""
        answer = asyncio.ensure_future(asyncio.to_thread(_exchange, process, payload))
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        allowed = _resident(process.pid) + self._bounds.memory_bytes
        try:
            while not answer.done():
                await asyncio.wait({answer}, timeout=min(LOOK_S, max(0.0, until - loop.time())))
                if answer.done():
                    break
                if loop.time() >= until:
                    raise ChildLost(f"it takes longer than {seconds:g} s to compile")
                if watched and _resident(process.pid) > allowed:
                    raise ChildLost("it takes too much memory to compile")
            return answer.result()
        finally:
            if not answer.done():
                process.kill()
                await asyncio.wait({answer})
                answer.exception()


def _launch() -> Child:
    """Start a child. Blocks for milliseconds.

    By `subprocess`, which uses vfork: a fork would run the handlers that BLAS and gRPC have for it, and those wait for
    threads that may be in the midst of a forward pass. An event loop's own way of starting processes may fork.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "actors.generation.grammar.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=_environment(),
    )


def _bury(process: Child) -> None:
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what it never read is of no use to anybody
                pipe.close()


def _exchange(process: Child, payload: bytes) -> Verdict:
    """Ask and wait for the answer; blocks until it comes or the child dies."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(frame(payload))
        process.stdin.flush()
        head = process.stdout.read(LENGTH.size)
        body = process.stdout.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
    except OSError:
        body = b""
    if not body:
        raise ChildDied(f"compiling it ended the compiler (status {process.wait()})")
    return msgspec.json.decode(body, type=Verdict)


def _environment() -> dict[str, str]:
    """The child finds the same sources; nothing in it needs more than one thread."""
    root = str(Path(actors.__path__[0]).parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
