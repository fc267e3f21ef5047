"""The way to the library from another process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from actors import errors
from actors.errors import LibraryUnavailable
from actors.library.messages import (
    DecodeRate,
    Download,
    FitAnswer,
    FitQuestion,
    Found,
    LibraryEntry,
    LibraryStatistics,
    Reclaimable,
    Reclaimed,
    Refusal,
)

PATIENCE_S = 120.0
"""A large cache on a slow disk takes its time to be scanned."""


class LibraryClient:
    """Asks the library. Cancelling ends the waiting only.

    Every method raises LibraryUnavailable when the library is away, and what the library refuses with.

    Args:
        library: handle of the library's deployment.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    async def models(self, refresh: bool = False) -> tuple[LibraryEntry, ...]:
        return await self._ask("models", refresh)

    async def fit(self, question: FitQuestion) -> FitAnswer:
        return await self._ask("fit", question)

    async def note_rate(self, rate: DecodeRate) -> None:
        await self._ask("note_rate", rate)

    async def downloads(self) -> tuple[Download, ...]:
        return await self._ask("downloads")

    async def download(self, repository: str) -> None:
        await self._ask("download", repository)

    async def search(self, query: str) -> Found:
        return await self._ask("search", query)

    async def plan_gc(self, used: tuple[Path, ...]) -> tuple[Reclaimable, ...]:
        return await self._ask("plan_gc", used)

    async def execute_gc(self, used: tuple[Path, ...]) -> Reclaimed:
        return await self._ask("execute_gc", used)

    async def has_token(self) -> bool:
        return await self._ask("has_token")

    async def save_token(self, token: str) -> None:
        await self._ask("save_token", token)

    async def forget_token(self) -> None:
        await self._ask("forget_token")

    async def statistics(self) -> LibraryStatistics:
        return await self._ask("statistics")

    async def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await getattr(self._library, method).remote(*arguments)
        except Exception as error:  # a dead actor fails in ways of its own
            raise LibraryUnavailable("the library does not answer") from error
        if isinstance(answer, Refusal):
            raise errors.by_name(answer.error, answer.message)
        return answer
