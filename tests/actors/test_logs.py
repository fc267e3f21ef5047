"""One line a record, in either format."""

from __future__ import annotations

import json
import logging
import sys

from actors.logs import JsonFormatter, TextFormatter


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("troupe.access", logging.INFO, "file", 1, message, (), None)
    made.__dict__.update(extra)
    return made


def test_json_carries_what_a_record_brings_along() -> None:
    fields = json.loads(JsonFormatter().format(record("done", troupe={"request_id": "r-1", "status": 200})))
    assert (fields["message"], fields["logger"], fields["level"]) == ("done", "troupe.access", "INFO")
    assert (fields["request_id"], fields["status"]) == ("r-1", 200)


def test_json_stays_on_one_line_with_a_stack_and_odd_text() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        made = record('quote " and\nline')
        made.exc_info = sys.exc_info()
    line = JsonFormatter().format(made)
    assert "\n" not in line
    assert "two\nlines" in json.loads(line)["exception"]


def test_text_names_level_and_logger() -> None:
    assert TextFormatter().format(record("done")).endswith("INFO troupe.access: done")
