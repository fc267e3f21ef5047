"""What stands in the place of the generation scheduler when the served model only embeds or transcribes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from actors import ids
from actors.errors import EngineUnavailable
from actors.generation.client import RowDeltas
from actors.generation.grammar.constraint import Constraint
from actors.generation.messages import Description, SchedulerStatistics, Submit
from actors.ids import IngressId
from routes.embedding_only import Kind, refusal


class NoGeneration:
    """Implements `GenerationClient` by refusing. `model_id` is the served model's, `kind` what it is made for."""

    def __init__(self, model_id: str, kind: Kind = "embedding") -> None:
        self.ingress: IngressId = ids.ingress_id()
        self._refusal = refusal(model_id, kind)

    @property
    def description(self) -> Description:
        raise EngineUnavailable("no scheduler runs here")

    @contextlib.asynccontextmanager
    async def generate(self, request: Submit) -> AsyncIterator[RowDeltas]:
        raise self._refusal
        yield  # what makes it a generator

    async def compile(self, constraint: Constraint) -> str | None:
        raise self._refusal

    async def statistics(self) -> SchedulerStatistics:
        raise EngineUnavailable("no scheduler runs here")
