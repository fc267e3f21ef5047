from __future__ import annotations

import json

import pytest

from actors.clock import FakeClock
from actors.errors import Conflict, QueueFull
from actors.library.ledger import LISTED, MOST_ACTIVE, DownloadLedger
from actors.library.messages import Download, Progress


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ledger(clock: FakeClock) -> DownloadLedger:
    return DownloadLedger(clock, lambda: 1000.0 + clock.now())


def news(received: int) -> Progress:
    return Progress(received, 1000, 1, 3, "model.safetensors")


def test_a_download_is_active_from_its_start_to_its_end(ledger: DownloadLedger, clock: FakeClock) -> None:
    ledger.start("a/b")
    assert ledger.listing() == (Download("a/b", "active", 1000.0),)
    ledger.progress("a/b", news(10))
    clock.advance(2)
    ledger.done("a/b")
    (ended,) = ledger.listing()
    assert (ended.state, ended.finished_at, ended.received_bytes, ended.current_file) == ("done", 1002.0, 10, None)
    assert (ledger.active, ledger.finished) == ((), 1)


def test_a_failure_keeps_its_reason(ledger: DownloadLedger) -> None:
    ledger.start("a/b")
    ledger.fail("a/b", "no room")
    (ended,) = ledger.listing()
    assert (ended.state, ended.error, ended.finished_at) == ("error", "no room", 1000.0)
    assert ledger.failed == 1


def test_one_at_a_time_a_repository(ledger: DownloadLedger) -> None:
    ledger.start("a/b")
    with pytest.raises(Conflict, match=r"^a download for a/b is already in progress$"):
        ledger.start("a/b")
    ledger.fail("a/b", "no")
    ledger.start("a/b")
    (again,) = ledger.listing()
    assert (again.state, again.error) == ("active", None)


def test_only_so_many_run_at_once(ledger: DownloadLedger) -> None:
    for number in range(MOST_ACTIVE):
        ledger.start(f"a/{number}")
    with pytest.raises(QueueFull):
        ledger.start("a/more")
    ledger.done("a/0")
    ledger.start("a/more")


def test_the_rate_is_that_of_the_last_seconds(ledger: DownloadLedger, clock: FakeClock) -> None:
    ledger.start("a/b")
    ledger.progress("a/b", news(500))  # was there before
    assert ledger.listing()[0].bytes_per_s == 0
    for _ in range(10):
        clock.advance(1)
        ledger.progress("a/b", news(500))
    for received in (510, 520, 530, 540, 550):
        clock.advance(1)
        ledger.progress("a/b", news(received))
    assert ledger.listing()[0].bytes_per_s == 10
    clock.advance(5)
    assert ledger.listing()[0].bytes_per_s == 5  # silence makes it slower
    ledger.done("a/b")
    assert ledger.listing()[0].bytes_per_s == 0


def test_the_last_five_are_listed_newest_first_and_running_ones_always(ledger: DownloadLedger) -> None:
    ledger.start("a/running")
    for number in range(LISTED + 2):
        ledger.start(f"a/{number}")
        ledger.done(f"a/{number}")
    assert [download.repo_id for download in ledger.listing()] == ["a/6", "a/5", "a/4", "a/3", "a/running"]


def test_a_later_life_knows_what_ran(ledger: DownloadLedger, clock: FakeClock) -> None:
    ledger.start("a/done")
    ledger.done("a/done")
    ledger.start("a/running")
    ledger.progress("a/running", news(10))
    later = DownloadLedger(clock, clock.now)
    later.restore(json.loads(json.dumps(ledger.to_plain())))
    assert later.listing() == ledger.listing()
    assert later.active == ("a/running",)
    later.done("a/running")


def test_rows_that_are_none_are_left_out(ledger: DownloadLedger) -> None:
    unhashable = {"repo_id": [], "state": "active", "started_at": 1.0}
    ledger.restore(
        [unhashable, {"repo_id": "a/b"}, {"nonsense": 1}, {"repo_id": "a/b", "state": "done", "started_at": 1.0}]
    )
    assert ledger.listing() == (Download("a/b", "done", 1.0),)
