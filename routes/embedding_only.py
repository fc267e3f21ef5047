"""What a server whose model only embeds says to those who want text."""

from __future__ import annotations

from actors.errors import InvalidRequest


def refusal(model_id: str) -> InvalidRequest:
    """The answer to a request for generated text."""
    return InvalidRequest(
        f"{model_id} is an embedding model and does not generate text; it is served at POST /v1/embeddings"
    )
