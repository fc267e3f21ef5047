"""The memory of weights: booked before they are loaded, and booked again as what they have become."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from actors.errors import StartError
from actors.gpu_lease.ports import Ledger

_log = logging.getLogger(__name__)

WEIGHTS = "weights"
"""The purpose that is booked."""


async def reserve(ledger: Ledger, model_id: str, size: int) -> None:
    """Book `size` bytes for a model's weights. Raises `StartError` when there is no room."""
    booking = await ledger.reserve(WEIGHTS, size)
    if not booking.granted:
        raise StartError(f"{model_id} does not fit: {booking.reason}")


async def load(ledger: Ledger, model_id: str, size: int, work: Callable[[], Awaitable[int]]) -> int:
    """Book `size` bytes, have the weights loaded by `work`, and book the bytes that it returns, which are the answer.

    Whatever ends `work` early, cancelling included, ends the booking.

    Raises:
        StartError: there is no room.
        BaseException: whatever `work` raises.
    """
    await reserve(ledger, model_id, size)
    try:
        found = await work()
    except BaseException:
        await ledger.unreserve(WEIGHTS)
        raise
    # What a conversion to another type has added is there already, whatever the ledger says to it.
    booking = await ledger.reserve(WEIGHTS, found)
    if not booking.granted:
        _log.warning("%s takes more memory than was booked: %s", model_id, booking.reason)
    return found
