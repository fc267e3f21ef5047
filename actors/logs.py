"""How the actors write logs: one line each, as text or as JSON, with the request id where there is one."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from actors.settings import LoggingSettings

ROOT = "troupe"


class TextFormatter(logging.Formatter):
    """`time level logger message`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")


class JsonFormatter(logging.Formatter):
    """One object a line. What a record carries in `extra={"troupe": {...}}` becomes fields of it."""

    converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        extra = getattr(record, "troupe", None)
        if isinstance(extra, dict):
            fields.update(extra)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def configure(settings: LoggingSettings) -> None:
    """Send everything below `troupe` and `actors` to stderr. May be repeated; the last call counts."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    for name in (ROOT, "actors", "routes"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(settings.level)
        logger.propagate = False
