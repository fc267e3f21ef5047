"""The directory: what survives a restart, a full disk, damage, and other people's files."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.spill.catalog import Layout
from actors.spill.codec import load
from actors.spill.files import Files
from actors.spill.record import TOKEN
from actors.spill.store import NoRoom, Store, Unavailable
from tests.support.records import MODEL, SEED, pack, segment, segments, values

KV = Layout(segments=True, states=False)
PLENTY = 10**9


@contextmanager
def opened(folder: Path, max_bytes: int = PLENTY, files: Files | None = None) -> Iterator[Store]:
    store = Store(folder, max_bytes, files)
    store.open()
    try:
        yield store
    finally:
        store.close()


def keep(store: Store, tokens: bytes, block: int = 8) -> None:
    store.write(segments(store.catalog, tokens, block))


def usable(store: Store, tokens: bytes) -> int:
    """Length of the longest prefix; every byte of it is read and compared with what it must be."""
    prefix = store.catalog.longest(SEED, tokens, len(tokens) // TOKEN, KV)
    for piece in prefix.pieces:
        loaded = load(store.path(piece.record.name), MODEL)
        assert loaded.record == piece.record
        mine = loaded.tensors["0.keys"].data[:, :, : piece.stop - piece.record.start]
        assert mine.tobytes() == values(tokens, piece.record.start, piece.stop).tobytes()
    return prefix.length


def test_records_are_there_after_a_restart(tmp_path: Path) -> None:
    tokens = pack(range(50))
    with opened(tmp_path) as store:
        keep(store, tokens)
        before = sorted(store.catalog, key=lambda record: record.name)
    with opened(tmp_path) as store:
        assert sorted(store.catalog, key=lambda record: record.name) == before
        assert usable(store, tokens) == 50


def test_a_turn_writes_only_what_is_new(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        keep(store, pack(range(1000)), 256)
        written = store.write(segments(store.catalog, pack(range(1050)), 256))
        assert [(record.start, record.stop) for record in written.durable] == [(1000, 1050)]
        again = store.write(segments(store.catalog, pack(range(1050)), 256))
        assert (again.durable, again.size) == ((), 0)


def test_nobody_else_may_read_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with opened(folder) as store:
        keep(store, pack(range(20)))
        store.set_aside(next(iter(store.catalog)).name, "a test")
        paths = [folder, *folder.rglob("*")]
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in paths}
    folders = {path.name for path in paths if path.is_dir()} | {"cache"}
    assert {name for name, mode in modes.items() if mode == 0o700} == folders
    assert all(mode == 0o600 for name, mode in modes.items() if name not in folders)
    assert len(modes) > 6


def test_a_second_store_is_refused_until_the_first_one_ends(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(Unavailable, match="another server uses"):
        Store(tmp_path, PLENTY).open()
    with opened(tmp_path) as store:
        assert store.is_open


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be used"):
        Store(tmp_path / "file" / "cache", PLENTY).open()


def test_the_index_is_made_anew_from_the_files(tmp_path: Path) -> None:
    tokens = pack(range(50))
    with opened(tmp_path) as store:
        keep(store, tokens)
    (tmp_path / "index.sqlite").unlink()
    with opened(tmp_path) as store:
        assert usable(store, tokens) == 50
    (tmp_path / "index.sqlite").write_bytes(b"no database at all" * 100)
    with opened(tmp_path) as store:
        assert usable(store, tokens) == 50
    with opened(tmp_path) as store:
        assert usable(store, tokens) == 50
    assert (tmp_path / "index.bad").exists()


def test_an_index_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        keep(store, pack(range(50)))
        with sqlite3.connect(tmp_path / "index.sqlite") as other:
            other.execute("DROP TABLE records")
        other.close()
        keep(store, pack(range(60)))
        keep(store, pack(range(70)))
    with opened(tmp_path) as store:
        assert usable(store, pack(range(70))) == 70


def test_leftovers_of_a_crash_are_removed_and_foreign_files_are_not_touched(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        keep(store, pack(range(20)))
    (tmp_path / "records/half.tmp").write_bytes(b"half")
    (tmp_path / "records/notes.txt").write_bytes(b"mine")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    with opened(tmp_path) as store:
        assert usable(store, pack(range(20))) == 20
    assert not (tmp_path / "records/half.tmp").exists()
    assert (tmp_path / "records/notes.txt").read_bytes() == b"mine"
    assert (tmp_path / "notes.txt").read_bytes() == b"mine"


def test_a_file_that_was_cut_is_set_aside_at_opening(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        keep(store, pack(range(24)))
        middle = next(record for record in store.catalog if record.start == 8)
        path = store.path(middle.name)
    path.write_bytes(path.read_bytes()[:-1])
    with opened(tmp_path) as store:
        assert store.set_aside_count == 1
        assert usable(store, pack(range(24))) == 8
        keep(store, pack(range(24)))
        assert usable(store, pack(range(24))) == 24
    assert (tmp_path / "quarantine" / path.name).exists()


def test_a_stranger_with_the_right_ending_is_set_aside(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    (tmp_path / "records/stranger.kv").write_bytes(b"TROUPEKV but not really")
    with opened(tmp_path) as store:
        assert (len(store.catalog), store.set_aside_count) == (0, 1)
    with opened(tmp_path) as store:
        assert store.set_aside_count == 0


def test_only_the_newest_damaged_files_are_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for turn in range(40):
            keep(store, pack([turn, 1, 2, 3]))
        names = [record.name for record in store.catalog]
        for age, name in enumerate(names):
            os.utime(store.path(name), (1000 + age, 1000 + age))
            store.set_aside(name, "a test")
        assert {path.stem for path in (tmp_path / "quarantine").iterdir()} == set(names[-32:])


class FullDisk(Files):
    """Takes so many bytes and no more."""

    def __init__(self, room: int, number: int = errno.ENOSPC) -> None:
        self.room = room
        self.number = number

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        content = b"".join(pieces)
        path.write_bytes(content[: self.room])
        if len(content) > self.room:
            raise OSError(self.number, os.strerror(self.number))
        self.room -= len(content)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
def test_what_a_disk_refuses_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    disk = FullDisk(3000, number)
    with opened(tmp_path, files=disk) as store:
        keep(store, pack(range(10)))
        before = sorted(store.records.iterdir())
        with pytest.raises(OSError, match=os.strerror(number)):
            keep(store, pack(range(100)))
        assert sorted(store.records.iterdir()) == before
        assert usable(store, pack(range(100))) == 10
        disk.room = PLENTY
        keep(store, pack(range(100)))
        assert usable(store, pack(range(100))) == 100


def test_the_budget_is_kept_and_the_end_of_the_oldest_history_goes_first(tmp_path: Path) -> None:
    times = iter(range(1000))
    store = Store(tmp_path, 5500, now=lambda: float(next(times)))
    store.open()
    old, new = pack(range(40)), pack(range(100, 140))
    keep(store, old)
    keep(store, new)
    assert store.catalog.size <= 5500
    assert usable(store, new) == 40
    assert 0 < usable(store, old) < 40
    assert store.evictions > 0
    used = usable(store, old)
    store.touch([piece.record.name for piece in store.catalog.longest(SEED, old, used, KV).pieces])
    keep(store, pack(range(200, 216)))
    assert (usable(store, old), usable(store, new) < 40) == (used, True)
    store.close()


def test_the_order_of_use_survives_a_restart(tmp_path: Path) -> None:
    times = iter(range(1000))

    def now() -> float:
        return float(next(times))

    first, second = pack(range(16)), pack(range(100, 116))
    store = Store(tmp_path, PLENTY, now=now)
    store.open()
    keep(store, first)
    keep(store, second)
    store.touch([record.name for record in store.catalog if record.tokens[:4] in first])
    size = store.catalog.size
    store.close()
    store = Store(tmp_path, size, now=now)
    store.open()
    keep(store, pack(range(200, 208)))
    assert usable(store, first) == 16
    assert usable(store, second) < 16
    store.close()


def test_a_history_longer_than_the_budget_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, 5000) as store:
        with pytest.raises(NoRoom):
            keep(store, pack(range(200)))
        assert len(store.catalog) == 0
        keep(store, pack(range(16)))
        parent = store.catalog.holder(SEED, pack(range(16)))
        with pytest.raises(NoRoom):
            store.write([segment(pack(range(600)), 16, 600, parent)])
        assert usable(store, pack(range(16))) == 16


def test_a_smaller_budget_is_kept_from_the_next_start_on(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for turn in range(10):
            keep(store, pack([turn, *range(20)]))
    with opened(tmp_path, 5000) as store:
        assert 0 < store.catalog.size <= 5000
        assert store.catalog.reachable() == {record.name for record in store.catalog}


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
