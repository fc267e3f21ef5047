"""A radix tree over token ids: which stored prefix helps a prompt most. Pure.

An item is stored at the end of its tokens. A trimmable one serves any prefix of them; another one serves the whole
and its boundaries: nodes further up where it can be cut too.

Token ids travel and rest as `TokenBytes` (4 bytes each), so an edge is a `bytes` slice and comparing edges is one
`memcmp`. A walk touches one node a branching point of the prompt, never a whole subtree: every node knows the
most recently used trimmable item below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

TOKEN = 4
"""Bytes of a token id."""


class Stored(Protocol):
    """What a tree stores."""

    @property
    def trimmable(self) -> bool:
        """Whether any shorter prefix can be cut from it. Never changes."""
        ...

    @property
    def used(self) -> int:
        """Rises with every use and differs between items; call `RadixTree.touch` after raising it."""
        ...


T = TypeVar("T", bound=Stored)


class Node(Generic[T]):
    """One edge and the point where it ends. Stays the same object for as long as it holds an item or a boundary."""

    __slots__ = ("boundaries", "children", "depth", "edge", "item", "parent", "recent")

    def __init__(self, edge: bytes, parent: Node[T] | None) -> None:
        self.edge = edge
        self.parent = parent
        self.depth: int = len(edge) // TOKEN + (parent.depth if parent else 0)
        self.children: dict[bytes, Node[T]] = {}
        self.item: T | None = None
        self.boundaries: list[T] = []
        """Items further down that can be cut here."""
        self.recent: T | None = None
        """Most recently used trimmable item here or below."""

    @property
    def held(self) -> bool:
        """Whether it stands for more than a fork of the way."""
        return self.item is not None or bool(self.boundaries)


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """The longest usable prefix of a prompt."""

    item: T
    """Where it comes from."""
    length: int
    """Tokens of the prompt that the item covers, at least 1."""
    visited: int
    """Nodes looked at, for tests and statistics."""


class RadixTree(Generic[T]):
    """Items by their token ids; at most one item for each sequence. Token bytes are whole tokens, never empty."""

    def __init__(self) -> None:
        self.root: Node[T] = Node(b"", None)

    def insert(self, tokens: bytes, item: T, boundaries: Sequence[int] = ()) -> Node[T]:
        """Store `item` and return its node, the handle for `remove` and `touch`.

        Args:
            boundaries: shorter lengths, in tokens and ascending, at which it can be cut.

        Raises:
            ValueError: `tokens` is empty or already holds an item.
        """
        node, offset = self.root, 0
        while offset < len(tokens):
            child = node.children.get(tokens[offset : offset + TOKEN])
            if child is None:
                child = Node(tokens[offset:], node)
                node.children[child.edge[:TOKEN]] = child
            step = _shared(child.edge, tokens, offset)
            node = child if step == len(child.edge) else _split(child, step)
            offset += step
        if node is self.root or node.item is not None:
            raise ValueError("an item needs tokens of its own")
        node.item = item
        above = node
        for boundary in reversed(boundaries):
            above = _ancestor(above, boundary)
            above.boundaries.append(item)
        self.touch(node)
        return node

    def touch(self, node: Node[T]) -> None:
        """Note that the node's item was used."""
        item = node.item
        if item is None or not item.trimmable:
            return
        above: Node[T] | None = node
        while above is not None:
            above.recent = _latest(above.recent, item)
            above = above.parent

    def remove(self, node: Node[T]) -> None:
        """Take out the node's item and its boundaries; the node is dead afterwards."""
        item, node.item = node.item, None
        above: Node[T] | None = node
        while above is not None and above.recent is item and item is not None:
            above.recent = _recount(above)
            above = above.parent
        above = node
        while above is not None:
            above.boundaries = [other for other in above.boundaries if other is not item]
            parent = above.parent
            _tidy(above)
            above = parent

    def longest(self, tokens: bytes, start: Node[T] | None = None) -> Found[T] | None:
        """The longest usable prefix that leaves at least the last token to compute; None when there is none.

        A trimmable item serves whatever it shares with the prompt, another one the whole or up to a boundary, as far
        as the prompt has it. Among equals the most recently used wins.

        Args:
            start: a node of which `leads` is true, to begin there; the answer is the same.
        """
        limit = len(tokens) // TOKEN - 1
        node, shared, visited = self._descend(tokens, start)
        best: T | None = None
        length = 0
        above: Node[T] | None = node
        while above is not None:
            usable = min(shared, above.depth, limit)
            if usable < max(length, 1):
                break
            best = _latest(best, above.recent)
            if above.depth == usable:
                for item in (above.item, *above.boundaries):
                    best = _latest(best, item)
            length = usable if best is not None else 0
            above = above.parent
            visited += 1
        return Found(best, length, visited) if best is not None else None

    def covering(self, tokens: bytes) -> list[T]:
        """Items that can be cut to exactly `tokens` (or equal them): boundaries, and the latest trimmable one."""
        node, shared, _ = self._descend(tokens)
        if shared * TOKEN != len(tokens):
            return []
        found = list(node.boundaries) if node.depth == shared else []
        return found if node.recent is None else [node.recent, *found]

    def shared(self, tokens: bytes) -> int:
        """Tokens at the start of `tokens` that some item has too, usable or not."""
        return self._descend(tokens)[1]

    @staticmethod
    def leads(node: Node[T], tokens: bytes) -> bool:
        """Whether the way to the node is the beginning of `tokens`, with at least one token to follow."""
        if len(tokens) <= node.depth * TOKEN:
            return False
        above: Node[T] | None = node
        while above is not None:
            if not tokens.startswith(above.edge, above.depth * TOKEN - len(above.edge)):
                return False
            above = above.parent
        return True

    def prefixes(self, tokens: bytes) -> list[tuple[int, T]]:
        """Every item that is wholly a prefix of `tokens` (or equals them) with its length, longest first."""
        node, shared, _ = self._descend(tokens)
        found: list[tuple[int, T]] = []
        above: Node[T] | None = node
        while above is not None:
            if above.item is not None and above.depth <= shared:
                found.append((above.depth, above.item))
            above = above.parent
        return found

    def nodes(self) -> Iterator[Node[T]]:
        """Every node but the root, parents before their children."""
        pending = list(self.root.children.values())
        while pending:
            node = pending.pop()
            yield node
            pending.extend(node.children.values())

    def empty(self) -> bool:
        """Whether nothing is stored."""
        return not self.root.children

    def check(self) -> list[str]:
        """Sentences about broken invariants; empty when the tree is sound. Visits every node."""
        faults = [fault for node in self.nodes() for fault in _faults(node)]
        for node in (*reversed(list(self.nodes())), self.root):
            if node.recent is not _recount(node):
                faults.append(f"the node at depth {node.depth} names the wrong most recent item")
        return faults

    def _descend(self, tokens: bytes, begin: Node[T] | None = None) -> tuple[Node[T], int, int]:
        """The last node touched (perhaps only part of its edge), the tokens shared with it, the nodes visited."""
        node, visited = begin or self.root, 1
        shared = node.depth
        while shared * TOKEN < len(tokens):
            start = shared * TOKEN
            child = node.children.get(tokens[start : start + TOKEN])
            if child is None:
                break
            node = child
            visited += 1
            shared += _shared(node.edge, tokens, start) // TOKEN
            if shared < node.depth:
                break
        return node, shared, visited


def _shared(edge: bytes, tokens: bytes, offset: int) -> int:
    """Bytes, in whole tokens, that `edge` and `tokens[offset:]` have in common."""
    if tokens.startswith(edge, offset):
        return len(edge)
    low, high = 0, min(len(edge), len(tokens) - offset) // TOKEN
    # Each round compares half of what the round before compared, so the whole costs one pass over the edge.
    while low < high:
        middle = (low + high + 1) // 2
        if tokens.startswith(edge[low * TOKEN : middle * TOKEN], offset + low * TOKEN):
            low = middle
        else:
            high = middle - 1
    return low * TOKEN


def _split(node: Node[T], at: int) -> Node[T]:
    """Put a new node `at` bytes into the edge of `node`, which keeps the rest."""
    parent = node.parent
    if parent is None:
        raise ValueError("the root has no edge to split")
    upper: Node[T] = Node(node.edge[:at], parent)
    upper.recent = node.recent
    parent.children[upper.edge[:TOKEN]] = upper
    node.edge, node.parent = node.edge[at:], upper
    upper.children[node.edge[:TOKEN]] = node
    return upper


def _ancestor(node: Node[T], depth: int) -> Node[T]:
    """The node at a depth on the way to `node`; made if there is none.

    Raises:
        ValueError: the depth does not lie on the way.
    """
    above = node
    while above.parent is not None and above.parent.depth >= depth:
        above = above.parent
    if not 0 < depth <= above.depth or (above is node and depth == node.depth):
        raise ValueError("a boundary lies between the first token and the last")
    if above.depth == depth:
        return above
    assert above.parent is not None
    return _split(above, (depth - above.parent.depth) * TOKEN)


def _tidy(node: Node[T]) -> None:
    """Take out a node that holds nothing and leads nowhere, or join one that does not branch to its only child."""
    if node.parent is None or node.held or len(node.children) > 1:
        return
    if not node.children:
        del node.parent.children[node.edge[:TOKEN]]
        return
    (child,) = node.children.values()
    child.edge, child.parent = node.edge + child.edge, node.parent
    node.parent.children[child.edge[:TOKEN]] = child


def _latest(one: T | None, other: T | None) -> T | None:
    if one is None or other is None:
        return one if other is None else other
    return other if other.used > one.used else one


def _recount(node: Node[T]) -> T | None:
    recent = node.item if node.item is not None and node.item.trimmable else None
    for child in node.children.values():
        recent = _latest(recent, child.recent)
    return recent


def _faults(node: Node[T]) -> Iterator[str]:
    parent, where = node.parent, f"the node at depth {node.depth}"
    if parent is None or parent.children.get(node.edge[:TOKEN]) is not node:
        yield f"{where} is not its parent's child"
    elif not node.edge or len(node.edge) % TOKEN or node.depth != parent.depth + len(node.edge) // TOKEN:
        yield f"{where} has an edge of {len(node.edge)} bytes that does not fit its depth"
    if not node.held and len(node.children) < 2:
        yield f"{where} neither holds an item nor branches"
