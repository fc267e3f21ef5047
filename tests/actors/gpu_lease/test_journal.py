from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from actors.gpu_lease.journal import Journal, Record, sweep
from actors.gpu_lease.lease import Holding
from actors.gpu_lease.messages import Acquire, Grant, Reserve
from actors.gpu_lease.process import Process

ROOT = Path(__file__).parents[3]
RECORD = Record(
    epoch=3,
    holding=Holding(Grant("a", 3, 7), Acquire("a", "background", 12, 3.25, 4)),
    bookings=(Reserve("a", "weights", 100, 12, 3.25),),
)


def nobody(process: Process) -> bool:
    return False


def everybody(process: Process) -> bool:
    return True


def test_the_next_life_reads_what_the_last_one_wrote(tmp_path: Path) -> None:
    first = Journal(tmp_path / "run" / "lease-1.json")
    assert first.read() is None
    first.write(RECORD)
    first.close()
    assert Journal(tmp_path / "run" / "lease-1.json").read() == RECORD


def test_the_file_is_for_its_owner_alone_and_comes_back_when_the_folder_was_emptied(tmp_path: Path) -> None:
    path = tmp_path / "run" / "lease-1.json"
    journal = Journal(path)
    path.with_suffix(".lock").unlink()
    path.parent.rmdir()
    journal.write(RECORD)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert journal.read() == RECORD


def test_a_torn_file_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "lease-1.json"
    path.write_bytes(b'{"epoch": 3, "hol')
    journal = Journal(path)
    assert journal.read() is None
    assert path.with_suffix(".bad").read_bytes() == b'{"epoch": 3, "hol'
    assert not path.exists()


def test_a_second_life_waits_until_the_first_is_gone(tmp_path: Path) -> None:
    code = "import sys, pathlib; from actors.gpu_lease.journal import Journal; print('asks', flush=True); "
    code += "print(Journal(pathlib.Path(sys.argv[1])).read().epoch, flush=True)"
    path = tmp_path / "lease-1.json"
    first = Journal(path)
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as second:
        assert second.stdout is not None
        assert second.stdout.readline() == "asks\n"
        first.write(RECORD)
        first.close()
        assert second.stdout.readline() == "3\n"


def test_only_journals_of_servers_long_gone_are_swept(tmp_path: Path) -> None:
    for name in ("gone", "fresh", "open"):
        journal = Journal(tmp_path / f"lease-{name}.json")
        journal.write(RECORD)
        if name != "open":
            journal.close()
    for name in ("gone", "open"):
        os.utime(tmp_path / f"lease-{name}.json", (0, 0))
    assert sweep(tmp_path, alive=everybody) == 0
    assert sweep(tmp_path, alive=nobody) == 1
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["lease-fresh.json", "lease-open.json"]
    assert not (tmp_path / "lease-gone.lock").exists()
