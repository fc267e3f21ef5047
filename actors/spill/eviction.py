"""Which records go when the directory is full. Pure.

Least recently used first, and always from the end of a history: a record goes after everything that hangs on it, so
that what stays is whole. Records that cannot be reached any more go before all others.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping

from actors.spill.catalog import Catalog


def victims(catalog: Catalog, used: Mapping[str, float], excess: int, kept: Collection[str]) -> list[str] | None:
    """Names in the order in which they should go; None when not enough may go.

    Args:
        catalog: what there is.
        used: when each record was last used.
        excess: bytes that have to become free.
        kept: records that stay; so does everything they hang on.
    """
    if excess <= 0:
        return []
    held = _with_ancestors(catalog, kept)
    reachable = catalog.reachable()
    waiting = {record.name: len(catalog.children(record.name)) for record in catalog}
    heap = [
        (name in reachable, used.get(name, 0.0), -record.start, name)
        for record in catalog
        if (name := record.name) not in held and (waiting[name] == 0 or name not in reachable)
    ]
    heapq.heapify(heap)
    chosen: list[str] = []
    gone: set[str] = set()
    while heap and excess > 0:
        name = heapq.heappop(heap)[-1]
        record = catalog.get(name)
        if record is None or name in gone:
            continue
        gone.add(name)
        chosen.append(name)
        excess -= record.size
        parent = catalog.get(record.parent) if record.parent is not None else None
        if parent is not None and parent.name not in held:
            waiting[parent.name] -= 1
            if waiting[parent.name] == 0:
                heapq.heappush(heap, (parent.name in reachable, used.get(parent.name, 0.0), -parent.start, parent.name))
    return chosen if excess <= 0 else None


def _with_ancestors(catalog: Catalog, names: Collection[str]) -> set[str]:
    held: set[str] = set()
    for name in names:
        current: str | None = name
        while current is not None and current not in held:
            held.add(current)
            record = catalog.get(current)
            current = record.parent if record is not None else None
    return held
