"""Responses that may be resumed: least recently used, bounded in bytes and age. Pure.

Conversations share their past: a turn is held once, however many responses continue it, and lives until none that can
be found needs it. So a response stands for its whole conversation, also when an earlier one is dropped or deleted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from actors.clock import Clock
from actors.ids import RequestId
from actors.responses.messages import Keep, Kept, StoreStatistics, Turn

OVERHEAD = 512
"""Bytes counted for each turn beside its JSON."""


@dataclass(slots=True, eq=False)
class _Node:
    """A turn and what came before it."""

    turn: Turn
    before: _Node | None
    items: tuple[str, ...]
    """Ids of its output items."""
    users: int = 0
    """Responses that end here, and turns that come next."""

    @property
    def size(self) -> int:
        return len(self.turn.input) + len(self.turn.response) + OVERHEAD

    def past(self) -> Iterator[_Node]:
        """This turn and all before it, newest first."""
        node: _Node | None = self
        while node is not None:
            yield node
            node = node.before


class StoredResponses:
    """All that is kept.

    Args:
        max_bytes: budget; 0 keeps nothing.
        ttl_s: seconds a response lives after it was kept.
        clock: tells their age.
    """

    def __init__(self, max_bytes: int, ttl_s: float, clock: Clock) -> None:
        self._max_bytes = max_bytes
        self._ttl_s = ttl_s
        self._clock = clock
        self._size = 0
        self._nodes: OrderedDict[RequestId, _Node] = OrderedDict()
        """Least recently used first."""
        self._holders: dict[str, RequestId] = {}
        """Output item -> the response it is in."""
        self._deadlines: OrderedDict[RequestId, float] = OrderedDict()
        """Oldest first."""
        self._hits = self._misses = self._evictions = self._expirations = 0

    def keep(self, message: Keep) -> Kept:
        """Store a response, and drop others for it. One that is stored already stays as it is."""
        self._expire()
        if message.response_id in self._nodes:
            return Kept.STORED
        before = None if message.previous is None else self._nodes.get(message.previous)
        if before is None and message.previous is not None:
            return Kept.ORPHANED
        node = _Node(message.turn, before, message.items)
        if sum(turn.size for turn in node.past()) > self._max_bytes:
            return Kept.TOO_LARGE
        self._hold(node)
        self._nodes[message.response_id] = node
        self._holders.update(dict.fromkeys(message.items, message.response_id))
        self._deadlines[message.response_id] = self._clock.now() + self._ttl_s
        while self._size > self._max_bytes:
            self._drop(next(iter(self._nodes)))
            self._evictions += 1
        return Kept.STORED

    def thread(self, response_id: RequestId) -> tuple[Turn, ...] | None:
        """The conversation that ends with a response, oldest turn first."""
        node = self._use(response_id)
        return None if node is None else tuple(turn.turn for turn in node.past())[::-1]

    def find(self, response_id: RequestId) -> bytes | None:
        """One response."""
        node = self._use(response_id)
        return None if node is None else node.turn.response

    def holding(self, items: Sequence[str]) -> tuple[bytes, ...]:
        """The responses that have these items in their output, each once. What nobody has is passed over."""
        self._expire()
        names = [self._holders.get(item) for item in items]
        self._misses += names.count(None)
        found = [self._use(name) for name in dict.fromkeys(names) if name is not None]
        return tuple(node.turn.response for node in found if node is not None)

    def forget(self, response_id: RequestId) -> bool:
        """Drop a response. What others continue stays with them."""
        self._expire()
        known = response_id in self._nodes
        if known:
            self._drop(response_id)
        return known

    def statistics(self, mailbox_depth: int) -> StoreStatistics:
        self._expire()
        return StoreStatistics(
            entries=len(self._nodes),
            size=self._size,
            max_size=self._max_bytes,
            ttl_s=self._ttl_s,
            hits=self._hits,
            misses=self._misses,
            evictions=self._evictions,
            expirations=self._expirations,
            mailbox_depth=mailbox_depth,
        )

    def check(self) -> list[str]:
        """Sentences about broken invariants; empty when all is sound."""
        held = {id(node): node for last in self._nodes.values() for node in last.past()}
        users = dict.fromkeys(held, 0)
        for last in self._nodes.values():
            users[id(last)] += 1
        for node in held.values():
            if node.before is not None:
                users[id(node.before)] += 1
        faults = []
        if any(node.users != users[key] for key, node in held.items()):
            faults.append("a turn miscounts its users")
        if self._size != sum(node.size for node in held.values()):
            faults.append("the size is not that of the turns held")
        if self._size > self._max_bytes:
            faults.append("the size is over the budget")
        if self._nodes.keys() != self._deadlines.keys():
            faults.append("responses and deadlines disagree")
        if any(name not in self._nodes or item not in self._nodes[name].items for item, name in self._holders.items()):
            faults.append("an item is said to be in a response that has it not")
        return faults

    def _use(self, response_id: RequestId) -> _Node | None:
        self._expire()
        node = self._nodes.get(response_id)
        if node is None:
            self._misses += 1
            return None
        self._hits += 1
        self._nodes.move_to_end(response_id)
        return node

    def _expire(self) -> None:
        now = self._clock.now()
        while self._deadlines:
            response_id, deadline = next(iter(self._deadlines.items()))
            if deadline > now:
                return
            self._drop(response_id)
            self._expirations += 1

    def _hold(self, node: _Node) -> None:
        node.users = 1
        self._size += node.size
        if node.before is not None:
            node.before.users += 1

    def _drop(self, response_id: RequestId) -> None:
        node: _Node | None = self._nodes.pop(response_id)
        del self._deadlines[response_id]
        for item in node.items:
            if self._holders.get(item) == response_id:
                del self._holders[item]
        while node is not None:
            node.users -= 1
            if node.users:
                return
            self._size -= node.size
            node = node.before
