"""The writer as an actor: its queue, its troubles, its figures."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from actors.settings import SsdCacheSettings
from actors.spill.actor import SpillWriter
from actors.spill.catalog import Catalog
from actors.spill.files import Files
from actors.spill.messages import Attach, Remove, SetAside, Touch, Write
from actors.spill.record import Draft
from tests.support.records import MODEL, pack, segments


def writer(folder: Path, files: Files | None = None, **settings: int) -> SpillWriter:
    return SpillWriter(SsdCacheSettings(enabled=True, dir=str(folder), **settings), files)


def drafts(first: int, count: int) -> tuple[Draft, ...]:
    return tuple(segments(Catalog(), pack(range(first, first + count))))


async def test_what_was_written_is_there_for_who_attaches_later(tmp_path: Path) -> None:
    first = writer(tmp_path)
    assert (await first.attach(Attach(MODEL))).records == ()
    written = await first.write(Write(drafts(0, 20)))
    assert len(written.durable) == 3
    assert (await first.attach(Attach(MODEL))).records == written.durable
    await first.close()
    second = writer(tmp_path)
    attached = await second.attach(Attach(MODEL))
    assert set(attached.records) == set(written.durable)
    assert attached.writer == second.incarnation != first.incarnation
    assert (await second.attach(Attach("cd" * 32))).records == ()
    await second.close()


async def test_the_second_server_on_a_directory_is_told_and_takes_over_when_the_first_one_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = writer(tmp_path), writer(tmp_path)
    await first.attach(Attach(MODEL))
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            await second.attach(Attach(MODEL))
        attached = await second.attach(Attach(MODEL))
    assert attached.unavailable == f"another server uses {tmp_path}"
    assert [record.message for record in caplog.records] == [f"ssd cache: not in use: another server uses {tmp_path}"]
    figures = await second.statistics()
    assert (figures.available, figures.problem) == (False, attached.unavailable)
    assert (await second.write(Write(drafts(0, 9)))).failure is not None
    await first.write(Write(drafts(0, 9)))
    await first.close()
    attached = await second.attach(Attach(MODEL))
    assert (attached.unavailable, len(attached.records)) == (None, 2)
    await second.close()


class Slow(Files):
    """Writes only while the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = threading.Event()

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        self.begun.set()
        assert self.gate.wait(60)
        super().write(path, pieces)


async def test_the_queue_is_bounded_in_bytes_and_the_loop_stays_free(tmp_path: Path) -> None:
    files = Slow()
    actor = writer(tmp_path, files, queue_bytes=100)
    await actor.attach(Attach(MODEL))
    # Larger than the whole queue, but alone.
    slow = asyncio.create_task(actor.write(Write(drafts(0, 40))))
    await asyncio.to_thread(files.begun.wait, 60)
    figures = await actor.statistics()
    assert (figures.pending_records, figures.pending_bytes) == (5, 160)
    refused = await actor.write(Write(drafts(100, 9)))
    assert (refused.busy, refused.durable) == (True, ())
    files.gate.set()
    assert len((await slow).durable) == 5
    figures = await actor.statistics()
    assert (figures.pending_records, figures.pending_bytes, figures.refused_writes) == (0, 0, 1)
    assert (figures.entries, figures.longest_prefix_tokens) == (5, 40)
    await actor.close()


class Sick(Files):
    """Fails with this errno while there is one."""

    number: int | None = None

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        if self.number is not None:
            raise OSError(self.number, os.strerror(self.number))
        super().write(path, pieces)


async def test_trouble_with_the_disk_is_said_once_a_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = Sick()
    actor = writer(tmp_path, files)
    await actor.attach(Attach(MODEL))
    with caplog.at_level(logging.INFO, "troupe.spill"):
        for number in (errno.ENOSPC, errno.ENOSPC, errno.EROFS, None, None):
            files.number = number
            written = await actor.write(Write(drafts(0, 20)))
            problem = (await actor.statistics()).problem
            assert written.failure == problem
            assert (problem is None) == (number is None) == bool(written.durable)
    where = f"cannot write to {tmp_path}"
    assert [record.message for record in caplog.records] == [
        f"ssd cache: {where}: No space left on device; serving goes on without it",
        f"ssd cache: {where}: Read-only file system; serving goes on without it",
        f"ssd cache: {tmp_path} takes records again",
    ]
    assert (await actor.statistics()).failed_writes == 3
    await actor.close()


async def test_what_does_not_fit_is_refused_for_good(tmp_path: Path) -> None:
    actor = writer(tmp_path, max_bytes=2000)
    await actor.attach(Attach(MODEL))
    written = await actor.write(Write(drafts(0, 80)))
    assert (written.no_room, written.durable, written.failure) == (True, (), None)
    await actor.close()


async def test_records_are_removed_and_set_aside_by_name(tmp_path: Path) -> None:
    actor = writer(tmp_path)
    await actor.attach(Attach(MODEL))
    names = [record.name for record in (await actor.write(Write(drafts(0, 24)))).durable]
    await actor.touch(Touch((names[0], "unknown")))
    for _ in range(2):
        await actor.set_aside(SetAside(names[2], "a test"))
        await actor.remove(Remove((names[1], "unknown")))
    assert [record.name for record in (await actor.attach(Attach(MODEL))).records] == [names[0]]
    figures = await actor.statistics()
    assert (figures.set_aside, figures.entries, figures.longest_prefix_tokens) == (1, 1, 8)
    await actor.close()


async def test_messages_before_the_first_attach_do_nothing(tmp_path: Path) -> None:
    actor = writer(tmp_path / "cache")
    await actor.touch(Touch(("x",)))
    await actor.remove(Remove(("x",)))
    await actor.set_aside(SetAside("x", "a test"))
    assert (await actor.write(Write(drafts(0, 9)))).failure is not None
    assert not (tmp_path / "cache").exists()
    await actor.close()
    await actor.close()
