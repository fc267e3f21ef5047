"""The protocol of the GPU lease, whole.

    acquire(Acquire)       -> Grant | None   waits for its turn; None when a newer request took its place
    contended(Grant)       -> Contention     parks until somebody waits, or the grant is void
    yield_(Yield)          -> Grant | None   gives way, then waits for its next turn; None: acquire anew
    release(Release)       -> None           gives way for good
    withdraw(Withdraw)     -> None           wants nothing any more, wherever its last request got to
    reserve(Reserve)       -> Reserved       books resident bytes in the ledger
    unreserve(Unreserve)   -> None
    statistics()           -> LeaseStatistics

A holder sends `acquire`, `yield_`, `release` and `withdraw` only while it runs no MLX. That is what makes a
request proof that the holder has stopped, also towards a restarted lease actor that knows it from its journal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LeaseClass = Literal["interactive", "transcription", "embeddings", "background"]


@dataclass(frozen=True, slots=True)
class Acquire:
    """Ask for MLX. A newer attempt of the same holder replaces the earlier one, and ends the grant it led to."""

    holder: str
    """Name of the asking engine, unique on the machine, such as `generation:<incarnation>`."""
    lease_class: LeaseClass
    """Whose weight counts under contention."""
    pid: int
    """Process that will run MLX."""
    started: float
    """Start of that process (`process.this_process`); with `pid` it names one process of this boot."""
    attempt: int
    """Number of the request, ever rising within the process. A newer one proves that the holder has stopped
    whatever an older one allowed, even when the answer to that one was lost; an older one is ignored."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to run MLX until it is yielded, released, or its epoch ends."""

    holder: str
    """To whom."""
    epoch: int
    """One life of the lease actor; a grant of an older epoch is void once `contended` failed."""
    token: int
    """Number of this grant within the epoch, ever rising."""


@dataclass(frozen=True, slots=True)
class Contention:
    """Answer to a parked `contended`: stop soon, or now when idle."""

    reason: Literal["waiter", "void"]
    """`waiter`: somebody waits. `void`: the grant is not (or no longer) the current one; stop at once."""
    slice_left_s: float = 0.0
    """With `waiter`: how long a working holder may go on."""


@dataclass(frozen=True, slots=True)
class Yield:
    """Give way and queue up again."""

    grant: Grant
    """What is given back."""
    worked_s: float
    """Measured MLX seconds since the grant, charged to the class."""


@dataclass(frozen=True, slots=True)
class Release:
    """Give way for good."""

    grant: Grant
    """What is given back. A stale grant is ignored."""
    worked_s: float
    """Measured MLX seconds since the grant, charged to the class."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """End the holder's request and whatever came of it. The last word of a holder; may be repeated."""

    holder: str
    """As in `Acquire`."""
    pid: int
    """As in `Acquire`."""
    started: float
    """As in `Acquire`."""
    attempt: int
    """The holder's last one; a newer request stays."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Book resident memory before loading weights."""

    owner: str
    """Who holds the memory, such as `generation:<incarnation>`. A second booking of one owner and purpose replaces."""
    purpose: str
    """What for, such as `weights`."""
    size: int
    """Bytes."""
    pid: int
    """Process that holds them; the booking ends with it."""
    started: float
    """Start of that process, as in `Acquire`."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """Outcome of a booking."""

    granted: bool
    """Whether the bytes were booked."""
    reason: str
    """When refused: a sentence with the sizes."""


@dataclass(frozen=True, slots=True)
class Unreserve:
    """End a booking; an unknown one is ignored."""

    owner: str
    """As booked."""
    purpose: str
    """As booked."""


@dataclass(frozen=True, slots=True)
class ClassStatistics:
    """One class of the lease."""

    waiting: int
    """Holders in line now."""
    grants: int
    """Grants since the actor started."""
    wait_s: float
    """Seconds spent in line, all grants together."""
    oldest_wait_s: float
    """How long the first in line has waited."""
    work_s: float
    """MLX seconds charged."""


@dataclass(frozen=True, slots=True)
class LeaseStatistics:
    """State of the lease."""

    epoch: int
    """Life of the lease actor."""
    holder: str | None
    """Who runs MLX now."""
    held_s: float
    """For how long."""
    classes: dict[str, ClassStatistics]
    """By class name."""
    deaths: int
    """Holders that died with a grant."""
    reserved_bytes: int
    """Booked in the ledger."""
    budget_bytes: int
    """What the ledger may book."""
    mailbox_depth: int
    """Calls parked in the actor."""
