"""The lease's ledger without a lease: books what fits, and shows it."""

from __future__ import annotations

from actors.gpu_lease.messages import Reserved


class Ledger:
    """Implements `actors.gpu_lease.ports.Ledger`.

    Args:
        budget: bytes that a booking may have.
    """

    def __init__(self, budget: int = 10**9) -> None:
        self.budget = budget
        self.booked: dict[str, int] = {}

    async def reserve(self, purpose: str, size: int) -> Reserved:
        if size > self.budget:
            return Reserved(False, "there is no room")
        self.booked[purpose] = size
        return Reserved(True, "")

    async def unreserve(self, purpose: str) -> None:
        self.booked.pop(purpose, None)
