"""Program of the process that tries constraints out, so that a hostile one costs its own request and nothing else.

It holds no state but the vocabulary, and may be killed at any moment. It ends when its input does.
"""

from __future__ import annotations

import math
import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from actors.generation.grammar.constraint import Constraint
from actors.generation.grammar.recipe import build
from actors.generation.grammar.rehearsal import rehearse
from actors.generation.grammar.stack import on_stack
from actors.generation.grammar.wire import LENGTH, Verdict, Vocabulary, frame

if TYPE_CHECKING:
    from xgrammar import CompiledGrammar, GrammarCompiler

NICENESS = 10
COMPILE_STACK = 4 << 20
"""Half of what the scheduler compiles with: a grammar too deep for it dies here first."""
WALK_STACK = 1 << 20
"""Less than any engine thread has."""


def main() -> None:
    """Answer frames until the input ends."""
    os.nice(NICENESS)
    # Nothing of this belongs into a core file or into the scheduler's log.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    first = _read(source)
    if first is None:
        return
    vocabulary = msgspec.json.decode(first, type=Vocabulary)
    compiler = _compiler(vocabulary)
    _bound_memory(vocabulary.memory_bytes)
    _write(sink, Verdict())
    while (payload := _read(source)) is not None:
        _bound_time(vocabulary.cpu_s)
        _write(sink, try_out(compiler, vocabulary.words, msgspec.json.decode(payload, type=Constraint)))


def try_out(compiler: GrammarCompiler, words: int, constraint: Constraint) -> Verdict:
    """Compile a constraint and walk through it, on stacks smaller than those it will meet later. Blocks."""
    try:
        compiled: CompiledGrammar = on_stack(COMPILE_STACK, lambda: build(compiler, constraint)).result()
        size = compiled.tokenizer_info.vocab_size
        return Verdict(on_stack(WALK_STACK, lambda: rehearse(compiled, words, size)).result())
    except MemoryError:
        return Verdict("the grammar takes too much memory")
    except Exception as error:  # third-party code on somebody's grammar: it fails in many ways, all the grammar's fault
        return Verdict(plain(error))


def plain(error: Exception) -> str:
    """What xgrammar says, without the place in its own sources."""
    text = " ".join(str(error).split())
    if "bad_alloc" in text:
        return "the grammar takes too much memory"
    if text.startswith("[") and ": " in text:
        text = text.split(": ", 1)[1]
    return text[:300] or type(error).__name__


def _compiler(vocabulary: Vocabulary) -> GrammarCompiler:
    from xgrammar import GrammarCompiler, TokenizerInfo

    info = TokenizerInfo.deserialize_json(vocabulary.tokenizer)
    return GrammarCompiler(info, max_threads=1, cache_enabled=False)


def _bound_memory(beyond: int) -> None:
    """Allocations fail rather than take the machine. Only Linux tells and enforces it; elsewhere the parent looks."""
    if not sys.platform.startswith("linux"):
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + beyond
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _bound_time(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used.ru_utime + used.ru_stime) + seconds, hard))


def _read(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    payload = source.read(LENGTH.unpack(head)[0])
    return payload or None


def _write(sink: BinaryIO, verdict: Verdict) -> None:
    sink.write(frame(msgspec.json.encode(verdict)))
    sink.flush()


if __name__ == "__main__":
    main()
