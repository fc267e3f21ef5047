"""Which replica gets a call: that of its session, as long as it lives; new sessions fill the oldest replicas first.

A session's id carries the replica that opened it. When that one is gone, its sessions are spread over the others, and
each always to the same one. Whoever gets a call takes the session over, or says who has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """A replica as a router knows it."""

    name: str
    """Its unique id."""
    sessions: float
    """Open sessions, those among them that it may not have told of yet."""
    started: float
    """When it started, in seconds since the epoch."""


def replica_of(session_id: str) -> str:
    """The replica that a session's id names."""
    return session_id.partition("-")[2].partition(".")[0]


def moved(session_id: str, owner: str) -> str:
    """What to route a session by that another replica has taken over."""
    return f"{session_id.partition('-')[0]}-{owner}.{session_id.partition('.')[2]}"


def place(replica: str) -> str:
    """What to route by to reach a replica, or its stand-in when it is gone."""
    return f"place-{replica}."


def pinned(session_id: str, replicas: Sequence[str]) -> str:
    """Who gets the calls of a session: its own replica, or the one that takes its place."""
    own = replica_of(session_id)
    if own in replicas:
        return own
    token = session_id.partition(".")[2]
    return max(replicas, key=lambda name: hashlib.sha256(f"{token} {name}".encode()).digest())


def roomiest(replicas: Sequence[Standing], target: int) -> str:
    """Who gets a new session: the oldest replica with room, so that the newest ones empty; else the least busy one."""
    room = [one for one in replicas if one.sessions < target]
    if room:
        return min(room, key=lambda one: (one.started, one.name)).name
    return min(replicas, key=lambda one: (one.sessions, one.started, one.name)).name
