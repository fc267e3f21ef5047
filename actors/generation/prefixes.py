"""The scheduler's dealings with the prompt-cache manager. A manager that is away costs warm starts, nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from actors.generation.messages import Submit
from actors.ids import EntryId, Incarnation
from actors.prompt_cache.messages import (
    Discard,
    Entry,
    Lookup,
    Match,
    Publish,
    Published,
    Reconcile,
    Sweep,
    Swept,
    Unpin,
)

log = logging.getLogger("troupe.generation.prefixes")

PATIENCE_S = 2.0
"""How long a row waits for the manager before it starts cold."""


class Prefixes:
    """Event loop only.

    Args:
        manager: handle with `lookup`, `unpin`, `publish` and `reconcile`.
        scheduler: whose tensors these are.
        namespace: model, KV scheme and adapters; prefixes never cross it.
        enabled: False never asks and never offers.
        drop: tells the engine to free an entry.
    """

    def __init__(
        self, manager: Any, scheduler: Incarnation, namespace: str, enabled: bool, drop: Callable[[EntryId], None]
    ) -> None:
        self._manager = manager
        self._scheduler = scheduler
        self._namespace = namespace
        self._enabled = enabled
        self._drop = drop
        self._held: dict[EntryId, Entry] = {}
        self._known: Incarnation | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def lookup(self, request: Submit, tokens: list[int]) -> Match | None:
        """What the manager knows of the prompt; None if it was not asked or is silent. Never raises.

        Cancelling abandons the question.
        """
        if not self._enabled or len(tokens) < 2:
            return None
        message = Lookup(
            request.request_id, self._namespace, self._scheduler, request.prompt, request.session, request.partition
        )
        try:
            match: Match = await asyncio.wait_for(_result(self._manager.lookup.remote(message)), PATIENCE_S)
        except Exception as error:
            log.warning("the prompt-cache manager did not answer; %s starts cold: %s", request.request_id, error)
            return None
        self._seen(match.manager)
        if match.entry is None:
            return match
        # The engine takes references before any later drop reaches it, so the pin has done its work.
        self._spawn(self._unpin(Unpin(request.request_id, match.entry)))
        if match.entry in self._held:
            return match
        # It was let go meanwhile, and the manager has not heard of it.
        self._spawn(self._discard((match.entry,)))
        return replace(match, entry=None, length=0)

    @property
    def held(self) -> tuple[Entry, ...]:
        """Every prefix that the manager knows of here, oldest first."""
        return tuple(self._held.values())

    def publish(self, entry: Entry) -> None:
        """Offer a prefix that the engine has put on its shelf."""
        self._held[entry.entry] = entry
        self._spawn(self._publish(entry))

    async def reconcile(self) -> None:
        """Tell the manager everything held here. Never raises."""
        if not self._enabled:
            return
        message = Reconcile(self._namespace, self._scheduler, tuple(self._held.values()))
        try:
            self._obey(await asyncio.wait_for(_result(self._manager.reconcile.remote(message)), PATIENCE_S))
        except Exception as error:
            log.warning("the prompt-cache manager could not be told of %d prefixes: %s", len(self._held), error)

    async def sweep(self, pressure: int, durable: Callable[[Entry], bool]) -> None:
        """Let go of idle prefixes that are durable, and of whatever the manager gives up. Never raises.

        Args:
            pressure: bytes that should become free at once.
            durable: whether a prefix can be read again from elsewhere.
        """
        try:
            asked = self._manager.sweep.remote(Sweep(self._scheduler, pressure))
            swept: Swept = await asyncio.wait_for(_result(asked), PATIENCE_S)
        except Exception as error:
            log.warning("the prompt-cache manager did not look for idle prefixes: %s", error)
            return
        self._seen(swept.manager)
        demoted = tuple(name for name in swept.idle if name in self._held and durable(self._held[name]))
        for name in (*swept.drop, *demoted):
            self._forget(name)
        if demoted:
            await self._discard(demoted)

    async def _discard(self, entries: tuple[EntryId, ...]) -> None:
        try:
            message = Discard(self._scheduler, entries)
            await asyncio.wait_for(_result(self._manager.discard.remote(message)), PATIENCE_S)
        except Exception as error:
            log.warning("the prompt-cache manager was not told of %d prefixes let go: %s", len(entries), error)

    async def _publish(self, entry: Entry) -> None:
        message = Publish(self._namespace, self._scheduler, entry)
        try:
            self._obey(await asyncio.wait_for(_result(self._manager.publish.remote(message)), PATIENCE_S))
        except Exception as error:
            # An entry that no budget counts must not stay.
            log.warning("a prefix was not accepted and is dropped: %s", error)
            self._forget(entry.entry)

    async def _unpin(self, message: Unpin) -> None:
        try:
            await asyncio.wait_for(_result(self._manager.unpin.remote(message)), PATIENCE_S)
        except Exception as error:
            log.warning("the prompt-cache manager did not unpin %s: %s", message.entry, error)

    def _obey(self, published: Published) -> None:
        self._seen(published.manager)
        for entry in published.drop:
            self._forget(entry)

    def _forget(self, entry: EntryId) -> None:
        if self._held.pop(entry, None) is not None:
            self._drop(entry)

    def _seen(self, manager: Incarnation) -> None:
        if self._known is not None and self._known != manager:
            log.info("the prompt-cache manager was restarted; telling it of %d prefixes", len(self._held))
            self._spawn(self.reconcile())
        self._known = manager

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _result(response: Any) -> Any:
    return await response
