"""The protocol of the SSD writer, whole.

    attach(Attach)       -> Attached         a scheduler begins, or has lost sight of the writer: what is there for it
    write(Write)         -> Written          make records durable, or why not
    touch(Touch)         -> None             records were used
    set_aside(SetAside)  -> None             a record was found damaged
    remove(Remove)       -> None             records are not wanted any more
    statistics()         -> SpillStatistics

Files are read by the schedulers themselves, straight from the directory. Each of them keeps a catalog of its own
model's records, made from `Attached` and kept up by `Written`, so that neither a lookup nor the question what is
missing costs a message. A catalog that is behind does no harm: a file that is gone is noticed when it is opened.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.ids import Incarnation
from actors.spill.record import Draft, Record


@dataclass(frozen=True, slots=True)
class Attach:
    """Ask for what is durable of a model."""

    model: str
    """As in `Record`."""


@dataclass(frozen=True, slots=True)
class Attached:
    """What there is."""

    writer: Incarnation
    """Life of the writer; when it changes, the scheduler attaches again."""
    directory: str
    """Folder of the record files, on the writer's machine."""
    records: tuple[Record, ...]
    """All of the model's."""
    unavailable: str | None = None
    """Why the directory cannot be used now; None when it can."""


@dataclass(frozen=True, slots=True)
class Write:
    """Make records durable, all or none."""

    drafts: tuple[Draft, ...]
    """A record after those it hangs on."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a `Write`."""

    writer: Incarnation
    """Life of the writer."""
    durable: tuple[Record, ...] = ()
    """The records, when all of them are durable."""
    removed: tuple[str, ...] = ()
    """Records that had to go for them."""
    busy: bool = False
    """The queue is full; nothing was written. The same message may succeed later."""
    no_room: bool = False
    """They do not fit into the budget, ever."""
    failure: str | None = None
    """What the disk says; nothing was written. The same message may succeed later."""


@dataclass(frozen=True, slots=True)
class Touch:
    """Records were used: they are the last to be evicted. Unknown ones are ignored."""

    names: tuple[str, ...]
    """Which."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """A record must not be used again. Unknown ones are ignored; may be repeated."""

    name: str
    """Which."""
    reason: str
    """What is wrong with it, for the log."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Records are not wanted any more. Unknown ones are ignored; may be repeated."""

    names: tuple[str, ...]
    """Which."""


@dataclass(frozen=True, slots=True)
class SpillStatistics:
    """State of the SSD tier. Sizes are in bytes."""

    directory: str
    """The configured folder."""
    available: bool
    """Whether it is in use."""
    problem: str | None
    """Why it is not, or why the last write failed; None when all is well."""
    entries: int
    """Durable records."""
    size: int
    """Their bytes."""
    max_size: int
    """Budget."""
    written_records: int
    """Records written since start."""
    written_bytes: int
    """Their bytes."""
    pending_records: int
    """Records in the queue."""
    pending_bytes: int
    """Their arrays' bytes."""
    failed_writes: int
    """Writes that the disk refused since start."""
    refused_writes: int
    """Writes that found the queue full or no room in the budget since start."""
    set_aside: int
    """Damaged records since start."""
    ssd_evictions: int
    """Records removed for room since start."""
    longest_prefix_tokens: int
    """Length of the longest durable prefix of all models."""
    mailbox_depth: int
    """Messages being handled."""
