"""The ledger of resident bytes: what the processes of this machine have booked of a fixed budget. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from actors.gpu_lease.messages import Reserve, Reserved, Unreserve
from actors.gpu_lease.process import Process


@dataclass(frozen=True, slots=True)
class _Account:
    owner: str
    purpose: str


class Ledger:
    """Bookings by owner and purpose; each one ends with its process."""

    def __init__(self, budget: int, bookings: Iterable[Reserve] = ()) -> None:
        self.budget = budget
        self._bookings = {_Account(booking.owner, booking.purpose): booking for booking in bookings}

    @property
    def reserved(self) -> int:
        """Bytes booked."""
        return sum(booking.size for booking in self._bookings.values())

    @property
    def bookings(self) -> tuple[Reserve, ...]:
        """All of them, oldest first."""
        return tuple(self._bookings.values())

    def book(self, request: Reserve) -> Reserved:
        """Book, or refuse in words. A refused replacement leaves the earlier booking as it was."""
        account = _Account(request.owner, request.purpose)
        others = [booking for name, booking in self._bookings.items() if name != account]
        free = self.budget - sum(booking.size for booking in others)
        if request.size > free:
            return Reserved(False, self._refusal(request, others, free))
        self._bookings[account] = request
        return Reserved(True, "")

    def end(self, message: Unreserve) -> bool:
        """End a booking; whether there was one."""
        return self._bookings.pop(_Account(message.owner, message.purpose), None) is not None

    def died(self, process: Process) -> bool:
        """End what a dead process had booked; whether there was anything."""
        gone = [name for name, booking in self._bookings.items() if _process(booking) == process]
        for name in gone:
            del self._bookings[name]
        return bool(gone)

    def processes(self) -> set[Process]:
        """Every process with a booking."""
        return {_process(booking) for booking in self._bookings.values()}

    def _refusal(self, request: Reserve, others: list[Reserve], free: int) -> str:
        taken = ", ".join(f"{size_text(other.size)} for {other.purpose} of {other.owner}" for other in others)
        return (
            f"{request.purpose} of {request.owner} need {size_text(request.size)}, but only "
            f"{size_text(max(free, 0))} of the memory budget of {size_text(self.budget)} are free"
            + (f" ({taken})" if taken else "")
        )


def size_text(size: int) -> str:
    """`1.5 GiB` for people."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _process(booking: Reserve) -> Process:
    return Process(booking.pid, booking.started)
