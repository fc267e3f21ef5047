"""Input items that only name an output item of an earlier response."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.errors import NotFound
from actors.responses.client import ResponseStoreClient
from routes.schema.response_items import REFERENCE, Item


async def dereferenced(store: ResponseStoreClient, items: Sequence[Item], past: Sequence[Item]) -> tuple[Item, ...]:
    """The items with each reference replaced by what it names, or left out where the past has it anyway.

    Args:
        store: keeps the responses.
        items: of a request.
        past: what stands before them in the conversation.

    Raises:
        NotFound: no response that can be found has such an item.
        StoreUnavailable: the store does not answer.
    """
    known = {item.get("id") for item in past}
    wanted = dict.fromkeys(str(item["id"]) for item in items if item["type"] == REFERENCE and item["id"] not in known)
    found = {str(item["id"]): item for item in await _outputs(store, tuple(wanted))}
    for name in wanted:
        if name not in found:
            raise NotFound(f"item with id '{name}' not found, or not any more: send the item itself")
    return tuple(
        found[str(item["id"])] if item["type"] == REFERENCE else item
        for item in items
        if item["type"] != REFERENCE or item["id"] not in known
    )


async def _outputs(store: ResponseStoreClient, names: tuple[str, ...]) -> list[Item]:
    """All items of the responses that these are in."""
    outputs: list[Item] = []
    for response in await store.holding(names) if names else ():
        output = msgspec.json.decode(response, type=dict[str, object])["output"]
        assert isinstance(output, list)
        outputs += output
    return outputs
