"""The protocol of the prompt-cache manager, whole.

    lookup(Lookup)       -> Match            longest usable prefix; the entry is pinned for the request
    unpin(Unpin)         -> None
    publish(Publish)     -> Published        a scheduler holds a new entry; which ones it should drop
    reconcile(Reconcile) -> Published        a scheduler's whole list, after either side was restarted
    sweep(Sweep)         -> Swept            now and then: what has been idle, what must go for want of memory
    discard(Discard)     -> None             a scheduler has let go of entries by itself
    close_session(str)   -> None             a session is over: nothing is kept for its sake any more
    statistics()         -> CacheStatistics

The manager holds no tensors. An entry's tensors stay with the scheduler that made it; the manager says what
is known, what is pinned, and what has to go. Token ids travel as little-endian uint32 bytes (`TokenBytes`).
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.ids import EntryId, Incarnation, RequestId

TokenBytes = bytes
"""Token ids, 4 bytes each, little-endian unsigned."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Ask for the longest stored prefix of a prompt."""

    request_id: RequestId
    """Who asks; the pin is held in this name."""
    namespace: str
    """Model fingerprint + KV scheme. Prefixes never cross it."""
    scheduler: Incarnation
    """Whose tensors may be used."""
    tokens: TokenBytes
    """The prompt. A match is always shorter than this: the last token is computed anew."""
    session: str | None = None
    """Session affinity: where to look first, and a preference for retention."""
    partition: str = ""
    """What divides the namespace further, see `partition.py`. Prefixes never cross it either."""


@dataclass(frozen=True, slots=True)
class Match:
    """The longest usable prefix."""

    manager: Incarnation
    """Life of the manager; when it changes, the scheduler reconciles."""
    entry: EntryId | None
    """Entry to start from, pinned until `Unpin`; None for a cold start."""
    length: int
    """Tokens of the prompt that the entry covers; less than the entry's own length when it has to be trimmed."""
    shared: int = 0
    """Tokens at the start of the prompt that some entry has too, usable or not: where prompts part ways."""


@dataclass(frozen=True, slots=True)
class Unpin:
    """The request no longer reads the entry. Unknown pairs are ignored."""

    request_id: RequestId
    """Who pinned."""
    entry: EntryId
    """What."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored prefix."""

    entry: EntryId
    """Name."""
    tokens: TokenBytes
    """Exactly the tokens whose state the tensors hold."""
    size: int
    """Bytes at exact length."""
    trimmable: bool
    """Whether any shorter prefix can be cut from it (full attention), or only some (SSM, wrapped windows)."""
    session: str | None = None
    """Session that published it."""
    boundaries: tuple[int, ...] = ()
    """Shorter lengths at which it can be cut although it is not trimmable, ascending."""
    partition: str = ""
    """As in `Lookup`."""


@dataclass(frozen=True, slots=True)
class Publish:
    """A scheduler holds a new entry."""

    namespace: str
    """As in `Lookup`."""
    scheduler: Incarnation
    """Who holds the tensors."""
    entry: Entry
    """What it holds."""


@dataclass(frozen=True, slots=True)
class Published:
    """What became of it."""

    manager: Incarnation
    """Life of the manager."""
    drop: tuple[EntryId, ...]
    """Entries whose tensors the scheduler should free now; may contain the published one (no room, or a duplicate)."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Everything a scheduler holds. Replaces what the manager knew of it; entries of its dead predecessors go."""

    namespace: str
    """As in `Lookup`."""
    scheduler: Incarnation
    """Who."""
    entries: tuple[Entry, ...]
    """All of them, oldest first."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A scheduler looks around."""

    scheduler: Incarnation
    """Who."""
    pressure: int
    """Bytes to free because the machine runs short of memory; 0 if it does not."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a scheduler may do about it."""

    manager: Incarnation
    """Life of the manager."""
    drop: tuple[EntryId, ...]
    """As in `Published`: what pressure, or anything before, has cost."""
    idle: tuple[EntryId, ...]
    """Entries nobody has used for long. Those that are durable elsewhere should be dropped and named in a `Discard`."""


@dataclass(frozen=True, slots=True)
class Discard:
    """Entries whose tensors are gone from the scheduler's memory. Unknown ones are ignored; may be repeated."""

    scheduler: Incarnation
    """Whose they were."""
    entries: tuple[EntryId, ...]
    """Which."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """State of the RAM tier."""

    entries: int
    """Stored prefixes."""
    size: int
    """Their bytes."""
    max_size: int
    """Budget."""
    hits: int
    """Lookups that found a prefix."""
    misses: int
    """Lookups that did not."""
    hit_tokens: int
    """Prompt tokens that were not computed."""
    evictions: int
    """Entries dropped for room."""
    demotions: int
    """Idle entries whose tensors were let go because they are durable."""
    reclaimed: int
    """Bytes freed because the machine ran short of memory."""
    sessions: int
    """Sessions that refer to an entry."""
    session_hits: int
    """Lookups answered by the session's own latest entry."""
    session_misses: int
    """Lookups of a session that needed a search."""
    prefix_scans: int
    """Lookups that searched all entries of their namespace."""
    pinned: int
    """Entries in use by a row now."""
    mailbox_depth: int
    """Messages being handled."""
