"""What a route may ask of the embedder. `actors/ingress/embedding_link.py` implements it over Ray."""

from __future__ import annotations

from typing import Protocol

from actors.embedding.messages import Embed, Embedded, EmbedderStatistics
from actors.models.embedding_card import EmbeddingCard


class EmbeddingClient(Protocol):
    """One ingress replica's way to the embedder. Every method may raise `EngineUnavailable`."""

    @property
    def card(self) -> EmbeddingCard:
        """What is served."""
        ...

    async def embed(self, request: Embed) -> Embedded:
        """The vectors of a request's texts. Cancelling gives it up, and the embedder hears of it.

        Raises:
            QueueFull: too many requests wait.
            ShuttingDown: the server stops.
            GenerationFailed: the model failed on these texts.
        """
        ...

    async def statistics(self) -> EmbedderStatistics:
        """The embedder's state now."""
        ...
