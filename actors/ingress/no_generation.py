"""What stands in the place of the generation scheduler when the served model only embeds."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from actors import ids
from actors.errors import EngineUnavailable
from actors.generation.client import RowDeltas
from actors.generation.grammar.constraint import Constraint
from actors.generation.messages import Description, SchedulerStatistics, Submit
from actors.ids import IngressId
from routes.embedding_only import refusal


class NoGeneration:
    """Implements `GenerationClient` by refusing. `model_id` is the served model's."""

    def __init__(self, model_id: str) -> None:
        self.ingress: IngressId = ids.ingress_id()
        self._model_id = model_id

    @property
    def description(self) -> Description:
        raise EngineUnavailable("no scheduler runs here")

    @contextlib.asynccontextmanager
    async def generate(self, request: Submit) -> AsyncIterator[RowDeltas]:
        raise refusal(self._model_id)
        yield  # what makes it a generator

    async def compile(self, constraint: Constraint) -> str | None:
        raise refusal(self._model_id)

    async def statistics(self) -> SchedulerStatistics:
        raise EngineUnavailable("no scheduler runs here")
