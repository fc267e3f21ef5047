"""Arrays on their way from the shelf to the SSD: copied out in slices, between two steps.

The event loop orders, the engine thread cuts. What it hands out are numpy views of arrays of their own, so whoever
writes them needs neither MLX nor haste.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

from actors.generation import kv, tensors
from actors.generation.shelf import Shelf, Stored
from actors.gpu_lease.ports import Lease
from actors.ids import EntryId
from actors.spill.record import Tensor

log = logging.getLogger("troupe.generation.export")

SLICE_BYTES = 2 * 2**20
"""Copied between two steps while rows decode: a few milliseconds at most, and the writer's work in their proportion."""

CALM_SLICES = 8
"""Slices at once while none does."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """The arrays of one record."""

    tensors: tuple[Tensor, ...]
    """All of them."""
    extra: str = ""
    """The structure of a state."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the event loop wants of one stored prefix."""

    entry: EntryId
    """Which."""
    cuts: tuple[tuple[int, int], ...]
    """Segments, as start and stop."""
    states: tuple[int, ...] = ()
    """Lengths whose states are wanted, after the segments."""
    done: Future[list[Parcel] | None] = field(default_factory=Future)
    """The parcels in order; None when the prefix is not on the shelf any more."""


class Exports:
    """Engine thread only.

    Args:
        shelf: where the prefixes are.
        slice_bytes: copied with each `step` between two steps of rows that decode, and the rest of one layer.
    """

    def __init__(self, shelf: Shelf, slice_bytes: int = SLICE_BYTES) -> None:
        self._shelf = shelf
        self._slice = slice_bytes
        self._orders: deque[Order] = deque()
        self._work: Iterator[int] | None = None

    @property
    def pending(self) -> bool:
        return bool(self._orders)

    def take(self, order: Order) -> None:
        """Take an order; they are done one after the other."""
        # From here on it cannot be cancelled, so that its result can always be set.
        if order.done.set_running_or_notify_cancel():
            self._orders.append(order)

    def step(self, calm: bool = False) -> None:
        """Copy one slice, if anything is ordered. Never raises; a failure is the order's.

        Args:
            calm: nobody decodes, so several slices hold nobody up.
        """
        if not self._orders:
            return
        limit = self._slice * (CALM_SLICES if calm else 1)
        order = self._orders[0]
        try:
            if self._work is None:
                self._work = self._cut(order)
            copied = 0
            for size in self._work:
                copied += size
                if copied >= limit:
                    return
        except Exception as error:
            log.exception("the stored prefix %s cannot be written to the disk", order.entry)
            order.done.set_exception(error)
        self._work = None
        self._orders.popleft()

    def alone(self, lease: Lease) -> None:
        """Nothing else runs: copy one slice under the lease, so short that no newcomer waits for it."""
        lease.hold()
        self.step()
        if lease.must_yield:
            lease.give_way()

    def clear(self) -> None:
        """Nobody will cut any more."""
        for order in self._orders:
            order.done.set_result(None)
        self._orders.clear()
        self._work = None

    def _cut(self, order: Order) -> Iterator[int]:
        """Do an order, yielding the bytes of each layer."""
        stored = self._shelf.get(order.entry)
        parcels: list[Parcel] = []
        if stored is not None:
            for start, stop in order.cuts:
                found: list[Tensor] = []
                for layer in tensors.segment(stored.caches, start, stop):
                    found += layer
                    yield sum(tensor.data.nbytes for tensor in layer)
                parcels.append(Parcel(tuple(found)))
            for length in order.states:
                whole, extra = tensors.state(_leaves(stored, length))
                parcels.append(Parcel(tuple(whole), extra))
                yield sum(tensor.data.nbytes for tensor in whole)
        order.done.set_result(None if stored is None else parcels)


def _leaves(stored: Stored, length: int) -> list[object]:
    return list(kv.leaves(stored.caches)) if length == stored.length else list(stored.states[length])
