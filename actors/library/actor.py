"""The library: knows the models on disk, fetches more of them, and clears away what is superseded.

Whatever blocks runs in threads, each download in a process of its own besides. Requests only ask and start; what they
started goes on without them, and a library that was killed takes up again what it was downloading.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from actors.clock import Clock, MonotonicClock
from actors.errors import InvalidRequest, LibraryUnavailable, TroupeError
from actors.library import garbage, hubsite, standing
from actors.library.fetcher import Fetcher, FetchFailed
from actors.library.ledger import MOST_ACTIVE, DownloadLedger
from actors.library.messages import (
    DecodeRate,
    Download,
    FitAnswer,
    FitQuestion,
    Found,
    LibraryEntry,
    LibraryStatistics,
    Progress,
    Reclaimable,
    Reclaimed,
    Refusal,
)
from actors.library.rates import Rates
from actors.library.registry import scan
from actors.library.storage import Storage, state_folder
from actors.library.token import TokenStore, checked
from actors.models.fit import usable_bytes
from actors.models.machine import Machine, this_machine
from actors.settings import LibrarySettings

log = logging.getLogger("troupe.library")

FRESH_S = 30.0
"""Age of a scan that still answers."""

_DOWNLOADS, _RATES = "downloads.json", "rates.json"
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REPOSITORY = re.compile(f"{_NAME}/{_NAME}")
T = TypeVar("T")


class Library:
    """All methods are called on one event loop. Cancelling a call ends the waiting, never what it has started.

    Args:
        settings: where it keeps its own files.
        budget: bytes that models may use on this machine; None takes a share of its RAM.
        hub_cache: the hub's cache folder; None takes the one that the hub library uses.
        clock: measures rates and ages.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        settings: LibrarySettings,
        budget: int | None = None,
        hub_cache: Path | None = None,
        clock: Clock | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._budget = budget
        self._hub_cache = hub_cache
        self._clock = clock or MonotonicClock()
        self._storage = Storage(state_folder(settings.state_dir))
        self._tokens = TokenStore(self._storage)
        self._ledger = DownloadLedger(self._clock, now)
        self._rates = Rates(now)
        self._threads = ThreadPoolExecutor(MOST_ACTIVE + 4, "library")
        self._scanning = asyncio.Lock()
        self._clearing = asyncio.Lock()
        self._saving = asyncio.Lock()
        self._scanned: tuple[float, tuple[LibraryEntry, ...]] | None = None
        self._fit: tuple[FitQuestion, standing.Standing] | None = None
        self._fetchers: dict[str, Fetcher] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._scans = 0
        self._scan_s = 0.0

    async def start(self) -> None:
        """Take up what an earlier life left."""
        if not await self._run(self._storage.own):
            return
        rows = await self._run(self._storage.read, _DOWNLOADS)
        self._ledger.restore(row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else None
        self._rates.restore(await self._run(self._storage.read, _RATES))
        for repository in self._ledger.active:
            log.info("the download of %s goes on", repository)
            self._begin(repository)

    async def close(self) -> None:
        """End the downloads; the next life takes them up again. May be repeated."""
        for fetcher in self._fetchers.values():
            fetcher.stop()
        await asyncio.gather(*self._tasks)
        self._storage.release()
        self._threads.shutdown(wait=False)

    async def models(self, refresh: bool = False) -> tuple[LibraryEntry, ...]:
        """What the hub's cache holds, smallest first; up to half a minute old unless `refresh`."""
        async with self._scanning:
            if not refresh and self._scanned is not None and self._clock.now() - self._scanned[0] < FRESH_S:
                return self._scanned[1]
            started = self._clock.now()
            entries = await self._run(self._scan)
            self._scanned = self._clock.now(), entries
            self._scans, self._scan_s = self._scans + 1, self._clock.now() - started
            return entries

    async def fit(self, question: FitQuestion) -> FitAnswer | Refusal:
        """How the served model stands here and elsewhere. Refused when its configuration does not say enough."""
        try:
            if self._fit is None or self._fit[0] != question:
                self._fit = question, await self._run(standing.estimate, question, self._budget)
        except (OSError, ValueError, TypeError) as error:
            return Refusal("LibraryUnavailable", f"the model's layers cannot be read: {error}")
        return standing.answer(self._fit[1], self._rates.of(question.fingerprint))

    async def note_rate(self, rate: DecodeRate) -> None:
        """Remember a measured rate; it replaces the one before."""
        self._rates.note(rate)
        await self._save(_RATES, self._rates.to_plain)

    async def downloads(self) -> tuple[Download, ...]:
        """The last few downloads, newest first."""
        return self._ledger.listing()

    async def download(self, repository: str) -> Refusal | None:
        """Start a download, which goes on by itself. Refused when it runs already, or as many as may."""
        try:
            if _REPOSITORY.fullmatch(repository) is None or ".." in repository or "--" in repository:
                raise InvalidRequest("repo must be the id of a repository such as owner/name")
            self._ledger.start(repository)
        except TroupeError as error:
            return Refusal(type(error).__name__, error.message)
        self._begin(repository)
        await self._save(_DOWNLOADS, self._ledger.to_plain)
        return None

    async def search(self, query: str) -> Found:
        """Ask the hub for models. Takes ten seconds at most, unless the network is stuck on names."""
        return await self._run(lambda: hubsite.search(query, self._tokens.for_hub()))

    async def plan_gc(self, used: tuple[Path, ...]) -> tuple[Reclaimable, ...]:
        """What could be deleted now; `used` are snapshots in use."""
        async with self._clearing:
            plans = await self._run(garbage.plan, self._cache(), used, self._ledger.active)
        return tuple(plan.row for plan in plans)

    async def execute_gc(self, used: tuple[Path, ...]) -> Reclaimed:
        """Delete what a plan made now names."""
        async with self._clearing:
            plans = await self._run(garbage.plan, self._cache(), used, self._ledger.active)
            done = await self._run(garbage.execute, plans)
        self._scanned = None
        log.info("deleted %d snapshots and %d files: %d bytes", done.snapshots, done.blobs, done.reclaimed_bytes)
        return done

    async def has_token(self) -> bool:
        """Whether a token is saved."""
        return await self._run(self._tokens.read) is not None

    async def save_token(self, token: str) -> Refusal | None:
        """Save a token for the hub. Refused when it is none, or when the hub answers that it does not know it."""
        try:
            token = checked(token)
            if await self._run(hubsite.is_refused, token):
                raise InvalidRequest("the hub does not accept this token")
            await self._run(self._tokens.save, token)
        except OSError as error:
            return _not_saved(error)
        except TroupeError as error:
            return Refusal(type(error).__name__, error.message)
        return None

    async def forget_token(self) -> Refusal | None:
        """Delete the saved token. May be repeated."""
        try:
            await self._run(self._tokens.forget)
        except OSError as error:
            return _not_saved(error)
        return None

    async def statistics(self) -> LibraryStatistics:
        """State now. Does not scan."""
        return LibraryStatistics(
            entries=len(self._scanned[1]) if self._scanned else 0,
            scans=self._scans,
            scan_s=self._scan_s,
            active_downloads=len(self._ledger.active),
            finished_downloads=self._ledger.finished,
            failed_downloads=self._ledger.failed,
        )

    def _scan(self) -> tuple[LibraryEntry, ...]:
        machine: Machine = this_machine()
        return scan(self._cache(), machine, usable_bytes(machine.ram_bytes, self._budget))

    def _cache(self) -> Path:
        if self._hub_cache is not None:
            return self._hub_cache
        from huggingface_hub import constants

        return Path(constants.HF_HUB_CACHE)

    def _begin(self, repository: str) -> None:
        task = asyncio.ensure_future(self._fetch(repository))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch(self, repository: str) -> None:
        """One download, from its start to its last entry in the ledger."""
        fetcher = self._fetchers[repository] = Fetcher(repository, await self._run(self._tokens.for_hub))
        loop = asyncio.get_running_loop()

        def report(news: Progress) -> None:
            loop.call_soon_threadsafe(self._ledger.progress, repository, news)

        try:
            await self._run(fetcher.run, report)
        except (FetchFailed, OSError) as error:
            if fetcher.stopped:
                return  # it stays active on disk, and is taken up by the next life
            log.warning("the download of %s failed: %s", repository, error)
            self._ledger.fail(repository, str(error))
        else:
            self._ledger.done(repository)
            self._scanned = None
        finally:
            del self._fetchers[repository]
        await self._save(_DOWNLOADS, self._ledger.to_plain)

    async def _save(self, name: str, content: Callable[[], Any]) -> None:
        """Write what is known now. A disk that refuses costs the memory of a later life, nothing else."""
        async with self._saving:
            try:
                if await self._run(self._storage.own):
                    await self._run(self._storage.write, name, content())
            except OSError as error:
                log.warning("%s could not be saved: %s", name, error)

    async def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


def _not_saved(error: OSError) -> Refusal:
    return Refusal(LibraryUnavailable.__name__, f"the token cannot be stored: {error.strerror or error}")
