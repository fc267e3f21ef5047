from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import ids
from actors.transcription.spool import CHUNK_ID_BYTES, Spool, SpoolFolder
from actors.transcription.wav import Samples

ONE, TWO = bytes([1]) * CHUNK_ID_BYTES, bytes([2]) * CHUNK_ID_BYTES


def numbers(count: int, first: int = 0) -> Samples:
    return np.arange(first, first + count, dtype=np.float32)


def contents(spool: Spool) -> list[float]:
    return [float(value) for chunk in spool.read() for value in chunk]


def begin(folder: SpoolFolder, most: int = 64) -> tuple[str, Spool]:
    name = ids.audio_session_id("one")
    spool = folder.create(name, b"head", most)
    assert spool is not None
    return name, spool


def age(path: Path, seconds: float) -> None:
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def test_another_process_reads_what_was_written(tmp_path: Path) -> None:
    name, spool = begin(SpoolFolder(tmp_path, "one"))
    spool.append(ONE, numbers(5))
    spool.append(TWO, numbers(3, 5))
    spool.close()
    found = SpoolFolder(tmp_path, "two").adopt(name)
    assert isinstance(found, Spool)
    assert contents(found) == list(range(8))
    assert (found.head, found.last_chunk) == (b"head", TWO)
    found.append(ONE, numbers(2, 8))
    assert contents(found) == list(range(10))


def test_a_session_that_is_served_is_not_given_away(tmp_path: Path) -> None:
    name, _ = begin(SpoolFolder(tmp_path, "one"))
    assert SpoolFolder(tmp_path, "two").adopt(name) == "one"


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    name, spool = begin(SpoolFolder(tmp_path / "deep", "one"))
    spool.append(ONE, numbers(5))
    paths = [tmp_path / "deep", *(tmp_path / "deep").rglob("*")]
    assert {path.name for path in paths} >= {name, "head", "audio", "owner"}
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


@given(st.integers(0, 10_000), st.binary(max_size=64))
def test_what_was_half_written_is_cut_off(tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes) -> None:
    path = tmp_path_factory.mktemp("spool")
    name, spool = begin(SpoolFolder(path, "one"))
    spool.append(ONE, numbers(5))
    whole = (path / name / "audio").stat().st_size
    spool.append(TWO, numbers(50, 5))
    spool.close()
    end = (path / name / "audio").stat().st_size
    content = (path / name / "audio").read_bytes()
    (path / name / "audio").write_bytes(content[: min(end - 1, whole + cut % (end - whole))] + junk)
    found = SpoolFolder(path, "two").adopt(name)
    assert isinstance(found, Spool)
    assert contents(found) == list(range(5))
    found.append(TWO, numbers(2, 5))
    assert contents(found) == list(range(7))


def test_no_more_sessions_than_allowed(tmp_path: Path) -> None:
    folder, other = SpoolFolder(tmp_path, "one"), SpoolFolder(tmp_path, "two")
    _, first = begin(folder, most=2)
    begin(other, most=2)
    assert folder.create(ids.audio_session_id("one"), b"", 2) is None
    first.remove(None)
    begin(folder, most=2)


def test_why_a_session_ended_is_remembered(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path, "one")
    name, spool = begin(folder)
    spool.remove("finished")
    assert folder.adopt(name) is None
    assert folder.why_over(name) == "finished"
    age(tmp_path / f"{name}.over", 4000)
    folder.sweep(10)
    assert folder.why_over(name) is None


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "asess-one./etc", "lock", "asess-one.0", "\0"])
def test_what_is_no_name_is_no_path(tmp_path: Path, name: str) -> None:
    folder = SpoolFolder(tmp_path / "inner", "one")
    assert folder.adopt(name) is None
    assert folder.why_over(name) is None


def test_sessions_of_the_dead_expire_and_those_of_the_living_do_not(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path, "one")
    kept, served = begin(folder)
    fresh, left = begin(folder)
    gone, dead = begin(folder)
    for name in (kept, gone):
        age(tmp_path / name / "audio", 100)
    left.close()
    dead.close()
    assert SpoolFolder(tmp_path, "two").sweep(50) == 1
    assert folder.why_over(gone) == "expired"
    assert not (tmp_path / gone).exists()
    assert (tmp_path / kept).exists()
    assert (tmp_path / fresh).exists()
    served.append(ONE, numbers(1))


def test_a_disk_that_is_full_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, spool = begin(SpoolFolder(tmp_path, "one"))
    spool.append(ONE, numbers(5))
    real = os.pwrite

    def full(file: int, content: bytes, at: int) -> int:
        real(file, content[:10], at)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space"):
            spool.append(TWO, numbers(5))
    assert contents(spool) == list(range(5))


def test_a_spool_of_another_format_is_left_as_it_is(tmp_path: Path) -> None:
    name, spool = begin(SpoolFolder(tmp_path, "one"))
    spool.append(bytes(CHUNK_ID_BYTES), numbers(100))
    path = tmp_path / name / "audio"
    before = b"TSP1" + path.read_bytes()[4:]
    path.write_bytes(before)
    with pytest.raises(OSError, match="another version"):
        list(spool.read())
    assert path.read_bytes() == before
