"""The directory under kills at any moment, and under any order of calls."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.spill.files import Files
from actors.spill.record import TOKEN
from actors.spill.store import NoRoom, Store
from tests.support.directory import PLENTY, opened, usable
from tests.support.records import pack, segments

_WRITER = """
import sys
from pathlib import Path
from actors.spill.store import Store
from tests.support.records import pack, segments

store = Store(Path(sys.argv[1]), int(sys.argv[2]))
store.open()
print("open", flush=True)
for line in sys.stdin:
    turn = int(line)
    tokens = pack([turn % 5, *range(turn % 60 + 4)])
    store.write(segments(store.catalog, tokens, 8))
    print(turn, flush=True)
"""


class Writer:
    """A child process that writes one history a line."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(folder), str(max_bytes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.orders, self.answers = self.process.stdin, self.process.stdout
        assert self.answers.readline() == "open\n"

    def kill(self) -> list[int]:
        """SIGKILL, whatever it does; returns the histories it had said are durable."""
        self.process.kill()
        self.process.wait()
        done = [int(line) for line in self.answers.read().splitlines()]
        self.orders.close()
        self.answers.close()
        return done


@pytest.mark.parametrize("max_bytes", [PLENTY, 40_000])
def test_a_killed_writer_leaves_a_whole_directory_and_all_it_said_was_durable(tmp_path: Path, max_bytes: int) -> None:
    for round in range(8):
        writer = Writer(tmp_path, max_bytes)
        turns = range(round * 40, round * 40 + 40)
        writer.orders.write("".join(f"{turn}\n" for turn in turns))
        writer.orders.flush()
        for _ in range(round * 3):
            assert writer.answers.readline()
        done = [*turns[: round * 3], *writer.kill()]
        with opened(tmp_path, max_bytes) as store:
            assert store.set_aside_count == 0
            assert store.catalog.size <= max_bytes
            for turn in turns:
                tokens = pack([turn % 5, *range(turn % 60 + 4)])
                whole = usable(store, tokens) == turn % 60 + 5
                assert whole or turn not in done or max_bytes != PLENTY
            assert not list(store.records.glob("*.tmp"))


_DYING = """
import os, signal, sys
from pathlib import Path
from actors.spill.files import Files
from actors.spill.store import Store
from tests.support.records import pack, segments

class Dying(Files):
    left = 0

    def _tick(self):
        Dying.left -= 1
        if Dying.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, path, pieces):
        self._tick()
        content = b"".join(pieces)
        if Dying.left == 1:
            path.write_bytes(content[: len(content) // 2])
            self._tick()
        super().write(path, [content])
        self._tick()

    def rename(self, old, new):
        self._tick()
        super().rename(old, new)
        self._tick()

    def sync_folder(self, folder):
        super().sync_folder(folder)
        self._tick()

    def remove(self, path):
        self._tick()
        super().remove(path)
        self._tick()

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        folder, left, first, last = line.split()
        store = Store(Path(folder), 9000, Dying())
        store.open()
        Dying.left = int(left)
        for turn in range(int(first), int(last)):
            store.write(segments(store.catalog, pack([turn, *range(30)]), 8))
        os._exit(0)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


def test_a_kill_at_every_single_operation_leaves_a_whole_directory(tmp_path: Path) -> None:
    """Hundreds of rounds: the process dies before and after each write, rename and removal."""
    with subprocess.Popen(
        [sys.executable, "-c", _DYING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for left in range(1, 201):
            first = (left - 1) * 4
            process.stdin.write(f"{tmp_path} {left % 60 + 1} {first} {first + 4}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "dead\n"
            with opened(tmp_path, 9000) as store:
                assert store.set_aside_count == 0
                assert store.catalog.size <= 9000
                assert store.catalog.reachable() == {record.name for record in store.catalog}
                for turn in range(max(0, first - 8), first + 4):
                    usable(store, pack([turn, *range(30)]))
                assert not list(store.records.glob("*.tmp"))
        process.stdin.close()


class Hasty(Files):
    """Does not wait for the disk: nothing pulls the plug here."""

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        path.write_bytes(b"".join(pieces))

    def sync_folder(self, folder: Path) -> None:
        return None


class StoreMachine(RuleBasedStateMachine):
    """Writes, restarts, damage and a small budget in any order, against what was ever written."""

    @initialize(budget=st.integers(3_000, 30_000))
    def begin(self, budget: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.budget = budget
        self.histories: list[bytes] = []
        self.lost = False
        self.store = Store(Path(self.folder.name), budget, Hasty())
        self.store.open()

    @rule(tokens=st.lists(st.integers(0, 2), min_size=1, max_size=30), block=st.integers(1, 9))
    def write(self, tokens: list[int], block: int) -> None:
        packed = pack(tokens)
        try:
            written = self.store.write(segments(self.store.catalog, packed, block))
        except NoRoom:
            return
        self.lost = self.lost or bool(written.removed)
        self.histories.append(packed)
        assert usable(self.store, packed) == len(tokens)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = Store(Path(self.folder.name), self.budget, Hasty())
        self.store.open()

    @precondition(lambda self: len(self.store.catalog) > 0)
    @rule(data=st.data())
    def damage(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(record.name for record in self.store.catalog)))
        self.store.set_aside(name, "a test")
        self.lost = True

    @invariant()
    def all_is_whole(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.store.catalog.size <= self.budget
        on_disk = {path.stem: path.stat().st_size for path in self.store.records.glob("*.kv")}
        assert on_disk == {record.name: record.size for record in self.store.catalog}
        for tokens in self.histories:
            length = usable(self.store, tokens)
            assert self.lost or length == len(tokens) // TOKEN

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


StoreMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
TestStoreMachine = StoreMachine.TestCase
