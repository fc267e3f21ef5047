"""When the Whisper weights are in memory: from the first clip on, until nobody has used them for a while."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from actors.errors import ModelUnavailable, ShuttingDown, StartError
from actors.gpu_lease import booking
from actors.gpu_lease.ports import Ledger
from actors.models.whisper_card import WhisperCard, find_whisper
from actors.settings import TranscriptionSettings
from actors.transcription.engine import Engine

log = logging.getLogger("troupe.transcription")


@dataclass(slots=True)
class WeightTally:
    """What happened to the weights since start."""

    loads: int = 0
    unloads: int = 0
    last_load_ms: float = 0.0


class Weights:
    """The weights of one model. Event loop only.

    Args:
        settings: which model, and when it is given up.
        card: the model, where it is known already.
        engine: keeps the arrays.
        ledger: keeps the books of memory.
        busy: whether somebody needs the weights.
    """

    def __init__(
        self,
        settings: TranscriptionSettings,
        card: WhisperCard | None,
        engine: Engine,
        ledger: Ledger,
        busy: Callable[[], bool],
    ) -> None:
        self.card = card
        """The model; None until it was looked for."""
        self.size = 0
        """Bytes in memory; 0 while there are none."""
        self.tally = WeightTally()
        self._settings = settings
        self._engine = engine
        self._ledger = ledger
        self._busy = busy
        self._changing = asyncio.Lock()
        self._loading: asyncio.Task[float] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unloading: asyncio.Task[bool] | None = None

    async def find(self) -> WhisperCard:
        """Which model it is; fetches the speech starter where there is no other. Raises `ModelUnavailable`."""
        if self.card is None:
            try:
                card = await asyncio.to_thread(find_whisper, self._settings.model, progress=False)
            except StartError as error:
                raise ModelUnavailable(
                    f"no Whisper model is on this machine ({error.message}); set transcription.model to a folder or a "
                    "repository such as mlx-community/whisper-small-mlx, or fetch one with `hf download`"
                ) from None
            assert card is not None, "a server without transcription has no transcriber"
            self.card = card
        return self.card

    async def ready(self) -> float:
        """Have the weights in memory. The milliseconds it took, 0 where they were there.

        One attempt serves all who wait for it, and goes on when one of them gives up.

        Raises:
            ModelUnavailable: they cannot be loaded, or there is no room for them.
            ShuttingDown: the server stops.
        """
        if self._loading is None:
            if self.size and not self._changing.locked():
                return 0.0
            self._loading = asyncio.ensure_future(self._have())
            self._loading.add_done_callback(self._loading_ended)
        return await asyncio.shield(self._loading)

    async def _have(self) -> float:
        async with self._changing:
            if self.size:
                return 0.0
            card, started = await self.find(), time.monotonic()
            await self._load(card)
            self.tally.loads += 1
            self.tally.last_load_ms = round((time.monotonic() - started) * 1000, 3)
            log.info("%s is loaded: %.0f MB", card.model_id, self.size / 1e6)
            return self.tally.last_load_ms

    async def unload(self) -> bool:
        """Give the weights up, unless somebody needs them; whether there was anything to give up."""
        async with self._changing:
            if not self.size or self._busy():
                return False
            await asyncio.wrap_future(self._engine.replace(lambda: None))
            await self._ledger.unreserve(booking.WEIGHTS)
            self.size = 0
            self.tally.unloads += 1
            return True

    @contextmanager
    def used(self) -> Iterator[None]:
        """Within the block they are not given up for idleness."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield
        finally:
            if not self._settings.resident and not self._busy():
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(self._settings.idle_unload_s, self._start_unloading)

    def close(self) -> None:
        """Forget what was planned."""
        if self._timer is not None:
            self._timer.cancel()

    def _start_unloading(self) -> None:
        self._unloading = asyncio.ensure_future(self.unload())
        self._unloading.add_done_callback(_heard)

    def _loading_ended(self, loading: asyncio.Task[float]) -> None:
        self._loading = None
        if not loading.cancelled() and loading.exception() is not None:
            log.error("the speech model is not loaded: %s", loading.exception())

    async def _load(self, card: WhisperCard) -> None:
        from actors.transcription.decoder import WhisperDecoder
        from actors.transcription.loading import load

        async def work() -> int:
            sizes: list[int] = []

            def make() -> WhisperDecoder:
                loaded = load(card, self._settings.dtype)
                sizes.append(loaded.weight_bytes)
                return WhisperDecoder(loaded)

            await asyncio.wrap_future(self._engine.replace(make))
            return sizes[0]

        try:
            self.size = await booking.load(self._ledger, card.model_id, card.weight_bytes, work)
        except StartError as error:
            raise ModelUnavailable(error.message) from None


def _heard(unloading: asyncio.Task[bool]) -> None:
    if unloading.cancelled():
        return
    error = unloading.exception()
    if error is not None and not isinstance(error, ShuttingDown):
        log.error("the speech model could not be given up: %s", error)
