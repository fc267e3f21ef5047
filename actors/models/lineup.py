"""Which models a configuration puts on the stage: one to generate with, one for embeddings, or one of the two."""

from __future__ import annotations

from dataclasses import dataclass

from actors.errors import StartError
from actors.models.card import ModelCard, read_card
from actors.models.embedding_card import EmbeddingCard, is_embedding_model, read_embedding_card
from actors.models.resolve import locate
from actors.models.whisper_card import AUTO, WhisperCard, find_whisper, is_whisper, read_whisper_card
from actors.settings import Settings


@dataclass(frozen=True, slots=True)
class Lineup:
    """What is served."""

    served: ModelCard
    """The main model, which gives the server its name."""
    generates: bool
    """Whether it generates; False for an embedding model."""
    embedding: EmbeddingCard | None
    """The embedding model: the main one, or one beside it."""
    speech: WhisperCard | None = None
    """The Whisper model: the main one, or one that the configuration names; None where it is found out later."""

    @property
    def transcribes(self) -> bool:
        """Whether the main model is the Whisper model."""
        return not self.generates and self.embedding is None


def line_up(settings: Settings, *, progress: bool) -> Lineup:
    """Have every model of a configuration on this machine, and read their cards. Blocks as `prepare` does.

    Raises:
        StartError: one sentence that says what is wrong with a model or the way to it.
    """
    beside = settings.embeddings.model
    trusted = settings.generation.trust_model_code
    path, model_id = locate(settings.model, progress=progress, code=trusted)
    if is_whisper(path):
        if beside is not None:
            raise StartError(f"{model_id} is a speech model; with it, leave embeddings.model out")
        whisper = read_whisper_card(path, model_id)
        return Lineup(whisper.as_served(), generates=False, embedding=None, speech=whisper)
    named = settings.transcription.model
    speech = None if named == AUTO else find_whisper(named, progress=progress)
    if is_embedding_model(path, model_id):
        if beside is not None:
            raise StartError(f"{model_id} is an embedding model itself; with it, leave embeddings.model out")
        card = read_embedding_card(path, model_id)
        return Lineup(card.model, generates=False, embedding=card, speech=speech)
    served = read_card(path, model_id, trust_model_code=trusted)
    if beside is None:
        return Lineup(served, generates=True, embedding=None, speech=speech)
    embedding = read_embedding_card(*locate(beside, progress=progress))
    return Lineup(served, generates=True, embedding=embedding, speech=speech)
