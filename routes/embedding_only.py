"""What a server whose model only embeds, or only transcribes, says to those who want text."""

from __future__ import annotations

from typing import Literal

from actors.errors import InvalidRequest

Kind = Literal["embedding", "speech"]

_PLACES: dict[Kind, str] = {"embedding": "POST /v1/embeddings", "speech": "POST /v1/audio/transcriptions"}


def refusal(model_id: str, kind: Kind = "embedding") -> InvalidRequest:
    """The answer to a request for generated text."""
    article = "an" if kind == "embedding" else "a"
    return InvalidRequest(
        f"{model_id} is {article} {kind} model and does not generate text; it is served at {_PLACES[kind]}"
    )
