from __future__ import annotations

import io
import logging
import sys

import pytest

from actors.models.progress import logging_bar, transfer


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_away_from_a_terminal_every_tenth_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "troupe.models")
    with transfer("fetching x", bar=True) as report:
        for done in range(0, 1001):
            report(done * 1_000_000, 1_000_000_000)
    assert caplog.messages == [f"fetching x: {tenth * 100} of 1000 MB" for tenth in range(1, 11)]


def test_small_transfers_are_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "troupe.models")
    with transfer("fetching x", bar=False) as report:
        for done in range(20):
            report(done * 1_000_000, 20_000_000)
    assert caplog.messages == []


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "troupe.models")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with transfer("fetching x", bar=True) as report:
        report(50_000_000, 0)
        report(93_000_000, 93_000_000)
    assert "fetching x: 100%" in screen.getvalue()
    assert "93.0M/93.0M" in screen.getvalue()
    assert caplog.messages == []


def test_a_terminal_stays_quiet_when_no_bar_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with transfer("fetching x", bar=False) as report:
        report(93_000_000, 93_000_000)
    assert screen.getvalue() == ""


def test_a_logging_bar_logs_bytes_and_draws_nothing(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "troupe.models")
    kind = logging_bar("fetching y")
    with kind(total=100_000_000, unit="B") as size, kind(total=3) as files:
        for _ in range(4):
            size.update(25_000_000)
        files.update(3)
    assert caplog.messages == [f"fetching y: {done} of 100 MB" for done in (25, 50, 75, 100)]
    assert capsys.readouterr() == ("", "")
