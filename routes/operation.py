"""What one method of one path is, for whoever checks callers and for whoever describes the API."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from actors.errors import TroupeError
from routes.keys import Right


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. What every route may answer (a bad key, a body that is no JSON, a stop) need not be said."""

    summary: str
    """One line for people."""
    right: Right = "inference"
    """What its callers need."""
    body: type[BaseModel] | None = None
    """Describes the JSON body; None if it takes none."""
    query: type[BaseModel] | None = None
    """Describes the query parameters; None if it reads none."""
    media: str = "application/json"
    """Type of its answer."""
    streams: bool = False
    """Whether it can also answer with server-sent events."""
    partly: tuple[int, ...] = ()
    """Statuses beside 200 under which it answers all the same, because not everything could be done."""
    refuses: tuple[type[TroupeError], ...] = ()
    """How it fails beside that."""
