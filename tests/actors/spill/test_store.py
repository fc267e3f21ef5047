"""The directory: what survives a restart, a full disk, damage, and other people's files."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest

from actors.spill.files import Files
from actors.spill.store import NoRoom, Store, Unavailable
from tests.support.directory import KV, PLENTY, keep, opened, usable
from tests.support.records import SEED, pack, segment, segments


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
