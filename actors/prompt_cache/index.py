"""The index of the RAM tier: what the messages of the manager mean. Pure; the actor only carries messages to it."""

from __future__ import annotations

import math
from collections import Counter, deque
from itertools import pairwise

from actors.clock import Clock
from actors.ids import EntryId, Incarnation
from actors.prompt_cache import eviction
from actors.prompt_cache.messages import (
    CacheStatistics,
    Discard,
    Entry,
    Lookup,
    Publish,
    Reconcile,
    Sweep,
    TokenBytes,
    Unpin,
)
from actors.prompt_cache.radix import TOKEN, Found, RadixTree
from actors.prompt_cache.residents import Place, Record, Residents
from actors.prompt_cache.sessions import Sessions

PIN_LEASE_S = 3600.0
"""A pin older than this is taken for forgotten. Losing a live pin costs no correctness: the row that reads the
entry holds its own reference to the tensors, and only the byte count is too low until that row ends."""


class PrefixIndex:
    """Known prefixes by place, within one budget of bytes.

    What a scheduler has to free is owed to it until it publishes, reconciles or sweeps next, since only those messages
    have an answer that can carry it.

    Args:
        max_bytes: the budget; 0 stores nothing.
        min_tokens: shorter prefixes are neither stored nor found.
        clock: tells the age of pins and of uses.
        idle_s: seconds without use after which an entry is named as idle.
    """

    def __init__(self, max_bytes: int, min_tokens: int, clock: Clock, idle_s: float = math.inf) -> None:
        self._max_bytes = max_bytes
        self._min_tokens = min_tokens
        self._idle_s = idle_s
        self._clock = clock
        self._trees: dict[Place, RadixTree[Record]] = {}
        self._residents = Residents()
        self._sessions = Sessions()
        self._owed: dict[Incarnation, dict[EntryId, None]] = {}
        self._seen: dict[str, set[Incarnation]] = {}
        self._retired: deque[Incarnation] = deque(maxlen=256)
        self._counts: Counter[str] = Counter()

    def lookup(self, message: Lookup) -> tuple[EntryId | None, int]:
        """The longest usable prefix and its length; the entry is pinned for the request. `(None, 0)` when cold.

        The session's latest entry is used without a search when the prompt continues it and nothing known goes further.

        Raises:
            ValueError: the token bytes are no whole tokens.
        """
        _count(message.tokens)
        place = self._place(message)
        found = self._search(place, message)
        if found is None or found.length < self._min_tokens:
            self._counts["misses"] += 1
            return None, 0
        record = found.item
        record.pins[message.request_id] = self._clock.now()
        self._touch(record)
        if message.session is not None:
            self._sessions.adopt(place, message.session, record.entry)
        self._counts["hits"] += 1
        self._counts["hit_tokens"] += found.length
        return record.entry, found.length

    def shared(self, message: Lookup) -> int:
        """Tokens at the start of the prompt that some entry of its place has too, usable or not."""
        tree = self._trees.get(self._place(message))
        return 0 if tree is None else tree.shared(message.tokens)

    def _search(self, place: Place, message: Lookup) -> Found[Record] | None:
        tree = self._trees.get(place)
        latest = self._sessions.latest(place, message.session) if message.session is not None else None
        record = self._residents.get(latest) if latest is not None else None
        if tree is not None and record is not None and record.node and tree.leads(record.node, message.tokens):
            found = tree.longest(message.tokens, record.node)
            if found is not None and found.item is record:
                self._counts["session_hits"] += 1
                return found
        self._counts["session_misses"] += message.session is not None
        self._counts["prefix_scans"] += 1
        return tree.longest(message.tokens) if tree is not None else None

    def close_session(self, session: str) -> None:
        """Forget what the session referred to, in every place. Its entries stay as long as others do."""
        self._sessions.close(session)

    def sweep(self, message: Sweep) -> tuple[tuple[EntryId, ...], tuple[EntryId, ...]]:
        """What the scheduler should free, at least `pressure` bytes of it if so much may go, and what is idle."""
        mine = [record for record in self._residents if record.place.scheduler == message.scheduler]
        before = self._residents.size
        self._evict(mine, message.pressure)
        self._counts["reclaimed"] += before - self._residents.size
        limit = self._clock.now() - self._idle_s
        idle = [record.entry for record in mine if record.node and not record.pinned and record.used_at <= limit]
        return self._collect(message.scheduler), tuple(idle)

    def discard(self, message: Discard) -> None:
        """Forget entries whose tensors the scheduler has let go."""
        for name in message.entries:
            record = self._residents.get(name)
            if record is not None and record.place.scheduler == message.scheduler:
                self._counts["demotions"] += 1
                self._discard(record)

    def unpin(self, message: Unpin) -> None:
        """End one pin; an unknown one is ignored. A superseded entry is owed to its scheduler with its last pin."""
        record = self._residents.get(message.entry)
        if record is not None and record.pins.pop(message.request_id, None) is not None:
            self._settle_superseded(record)

    def publish(self, message: Publish) -> tuple[EntryId, ...]:
        """Take in an entry; returns what its scheduler should free. Repeating it counts as one more use.

        Raises:
            ValueError: the entry is malformed, or its name already stands for another one.
        """
        if message.scheduler in self._retired:
            return (message.entry.entry,)
        self._see(message)
        place = _place(message, message.entry)
        self._validate(place, message.entry)
        self._admit(place, message.entry)
        return self._collect(message.scheduler)

    def reconcile(self, message: Reconcile) -> tuple[EntryId, ...]:
        """Replace what is known of a scheduler; returns what it should free.

        Its pins go, and so does everything of other schedulers in its namespace: they are its dead predecessors,
        and what they still send is ignored from now on.

        Raises:
            ValueError: an entry is malformed or known in another place; nothing was changed then.
        """
        if message.scheduler in self._retired:
            return tuple(entry.entry for entry in message.entries)
        self._see(message)
        for entry in message.entries:
            self._validate(_place(message, entry), entry, replacing=True)
        self._retire_predecessors(message.namespace, message.scheduler)
        for record in [record for record in self._residents if record.place.scheduler == message.scheduler]:
            self._discard(record)
        for entry in message.entries:
            self._admit(_place(message, entry), entry)
        return self._collect(message.scheduler)

    def expire_pins(self) -> int:
        """End the pins older than `PIN_LEASE_S`; returns how many."""
        limit = self._clock.now() - PIN_LEASE_S
        expired = 0
        for record in list(self._residents):
            for request in [request for request, since in record.pins.items() if since <= limit]:
                del record.pins[request]
                expired += 1
                self._settle_superseded(record)
        return expired

    def statistics(self, mailbox_depth: int) -> CacheStatistics:
        """State now. Superseded entries count until their last pin goes, as their bytes do."""
        return CacheStatistics(
            entries=len(self._residents),
            size=self._residents.size,
            max_size=self._max_bytes,
            hits=self._counts["hits"],
            misses=self._counts["misses"],
            hit_tokens=self._counts["hit_tokens"],
            evictions=self._counts["evictions"],
            demotions=self._counts["demotions"],
            reclaimed=self._counts["reclaimed"],
            sessions=len(self._sessions),
            session_hits=self._counts["session_hits"],
            session_misses=self._counts["session_misses"],
            prefix_scans=self._counts["prefix_scans"],
            pinned=sum(record.pinned for record in self._residents),
            mailbox_depth=mailbox_depth,
        )

    def check(self) -> list[str]:
        """Sentences about broken invariants; empty when all is sound. Costs time in proportion to all nodes."""
        faults = [*self._residents.check(), *self._sessions.check()]
        if self._residents.size > self._max_bytes:
            faults.append(f"{self._residents.size} bytes are held, {self._max_bytes} are allowed")
        if lost := self._sessions.entries() - {record.entry for record in self._residents}:
            faults.append(f"sessions refer to forgotten entries: {sorted(lost)}")
        faults.extend(
            f"{entry} is owed to its scheduler, yet still held"
            for owed in self._owed.values()
            for entry in owed
            if self._residents.get(entry) is not None
        )
        for place, tree in self._trees.items():
            faults.extend(f"{place.namespace}: {fault}" for fault in (*tree.check(), *_misplaced(place, tree)))
        stored = sum(node.item is not None for tree in self._trees.values() for node in tree.nodes())
        expected = sum(record.node is not None for record in self._residents)
        if stored != expected:
            faults.append(f"{stored} entries are in the trees, {expected} should be")
        return faults

    def _place(self, message: Lookup) -> Place:
        self._see(message)
        return Place(message.namespace, message.partition, message.scheduler)

    def _see(self, message: Lookup | Publish | Reconcile) -> None:
        if message.scheduler not in self._retired:
            self._seen.setdefault(message.namespace, set()).add(message.scheduler)

    def _validate(self, place: Place, entry: Entry, *, replacing: bool = False) -> None:
        length = _count(entry.tokens)
        if entry.size < 0:
            raise ValueError(f"{entry.entry} has a negative size")
        cuts = (0, *entry.boundaries, length)
        if entry.boundaries and any(one >= other for one, other in pairwise(cuts)):
            raise ValueError(f"the boundaries of {entry.entry} do not rise from 1 to below its length")
        known = self._residents.get(entry.entry)
        if known is None:
            return
        changed = not replacing and (known.length, known.size, known.trimmable) != (length, entry.size, entry.trimmable)
        if known.place != place or changed:
            raise ValueError(f"{entry.entry} already names another entry")

    def _admit(self, place: Place, entry: Entry) -> None:
        if entry.entry in self._owed.get(place.scheduler, {}):
            return
        known = self._residents.get(entry.entry)
        if known is not None:
            self._reuse(known, entry.session)
            return
        cuts = () if entry.trimmable else entry.boundaries
        record = Record(entry.entry, place, _count(entry.tokens), entry.size, entry.trimmable, cuts)
        tree = self._trees.get(place) or RadixTree[Record]()
        prefixes = [item for _, item in tree.prefixes(entry.tokens)]
        covers = [*tree.covering(entry.tokens), *(item for item in prefixes if item.length == record.length)]
        standing = eviction.redundant(record, sorted(covers, key=lambda item: item.used, reverse=True))
        if standing is not None:
            self._reuse(standing, entry.session)
        fits = eviction.fits(record.size, self._max_bytes, self._residents.pinned_size)
        if standing is not None or record.length < self._min_tokens or not fits:
            self._owe(record)
            return
        self._store(tree, record, entry, eviction.superseded(record, prefixes))

    def _store(self, tree: RadixTree[Record], record: Record, entry: Entry, superseded: list[Record]) -> None:
        for old in superseded:
            self._sessions.move(old.entry, record.entry)
            self._supersede(old)
        self._residents.add(record)
        record.used_at = self._clock.now()
        self._trees[record.place] = tree
        record.node = tree.insert(entry.tokens, record, record.boundaries)
        if entry.session is not None:
            self._sessions.refer(record.place, entry.session, record.entry)
        others = [other for other in self._residents if other is not record]
        self._evict(others, self._residents.size - self._max_bytes)

    def _evict(self, candidates: list[Record], excess: int) -> None:
        """Free at least `excess` bytes, or what may go of the candidates (least recently used first)."""
        for victim in eviction.victims(candidates, excess, lambda other: self._sessions.referenced(other.entry)):
            self._counts["evictions"] += 1
            self._owe(victim)
            self._discard(victim)

    def _reuse(self, record: Record, session: str | None) -> None:
        self._touch(record)
        # A superseded record has nothing to give a session any more.
        if session is not None and record.node is not None:
            self._sessions.refer(record.place, session, record.entry)

    def _touch(self, record: Record) -> None:
        self._residents.touch(record)
        record.used_at = self._clock.now()
        if record.node is not None:
            self._trees[record.place].touch(record.node)

    def _supersede(self, record: Record) -> None:
        self._uproot(record)
        self._settle_superseded(record)

    def _settle_superseded(self, record: Record) -> None:
        if record.node is None and not record.pinned:
            self._owe(record)
            self._discard(record)

    def _discard(self, record: Record) -> None:
        self._uproot(record)
        self._sessions.forget(record.entry)
        self._residents.discard(record)

    def _uproot(self, record: Record) -> None:
        if record.node is None:
            return
        tree = self._trees[record.place]
        tree.remove(record.node)
        record.node = None
        if tree.empty():
            del self._trees[record.place]

    def _retire_predecessors(self, namespace: str, scheduler: Incarnation) -> None:
        dead = self._seen[namespace] - {scheduler}
        for record in [record for record in self._residents if record.place.scheduler in dead]:
            self._discard(record)
        for seen in self._seen.values():
            seen -= dead
        for predecessor in dead:
            self._retired.append(predecessor)
            self._owed.pop(predecessor, None)

    def _owe(self, record: Record) -> None:
        self._owed.setdefault(record.place.scheduler, {})[record.entry] = None

    def _collect(self, scheduler: Incarnation) -> tuple[EntryId, ...]:
        return tuple(self._owed.pop(scheduler, {}))


def _place(message: Publish | Reconcile, entry: Entry) -> Place:
    return Place(message.namespace, entry.partition, message.scheduler)


def _count(tokens: TokenBytes) -> int:
    if len(tokens) % TOKEN:
        raise ValueError(f"{len(tokens)} bytes are no whole number of tokens")
    return len(tokens) // TOKEN


def _misplaced(place: Place, tree: RadixTree[Record]) -> list[str]:
    """Sentences about items that do not belong where they are."""
    faults: list[str] = []
    for node in tree.nodes():
        record = node.item
        faults.extend(
            f"{item.entry} cannot be cut at {node.depth} tokens"
            for item in node.boundaries
            if item.node is None or item.place != place or node.depth not in item.boundaries
        )
        if record is None:
            continue
        if record.node is not node or record.place != place or record.length != node.depth:
            faults.append(f"{record.entry} is in the tree at a point that is not its own")
        if any(child.recent is not None for child in node.children.values()):
            faults.append(f"{record.entry} is kept although a longer trimmable entry covers it")
    return faults
