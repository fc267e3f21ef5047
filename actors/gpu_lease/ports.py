"""The parts of `LeaseHolder` that engines and their actors use."""

from __future__ import annotations

from typing import Protocol

from actors.gpu_lease.messages import Reserved


class Lease(Protocol):
    """What an engine thread uses."""

    must_yield: bool

    def hold(self) -> None: ...
    def give_way(self) -> None: ...
    def idle(self) -> None: ...


class Ledger(Protocol):
    """What books memory. Event loop only."""

    async def reserve(self, purpose: str, size: int) -> Reserved: ...
    async def unreserve(self, purpose: str) -> None: ...
