"""What a request gets when it does not say how to sample. Pure."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TypeVar

from actors.generation.messages import Sampling
from actors.models.card import ModelCard
from actors.settings import GenerationSettings
from routes.schema.generation import GenerationFields

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """For requests that leave a field out."""

    temperature: float
    """0 is greedy."""
    top_p: float
    """0 is off."""
    top_k: int
    """0 is off."""


def sampling_defaults(settings: GenerationSettings, card: ModelCard) -> SamplingDefaults:
    """The server's settings win over the model author's defaults, and those over 0.7 / off / off."""
    return SamplingDefaults(
        temperature=_first(settings.temperature, card.temperature, 0.7),
        top_p=_first(settings.top_p, card.top_p, 0.0),
        top_k=_first(settings.top_k, card.top_k, 0),
    )


def resolve_sampling(wanted: GenerationFields, defaults: SamplingDefaults, vocabulary: int) -> Sampling:
    """Sampling of one row. Without a seed it gets a random one of 64 bits; a top_k of the whole vocabulary is off."""
    top_k = _first(wanted.top_k, defaults.top_k, 0)
    return Sampling(
        temperature=_first(wanted.temperature, defaults.temperature, 0.0),
        top_p=_first(wanted.top_p, defaults.top_p, 0.0),
        top_k=0 if top_k >= vocabulary else top_k,
        min_p=_first(wanted.min_p, None, 0.0),
        seed=secrets.randbits(64) if wanted.seed is None else wanted.seed % 2**64,
    )


def _first(value: T | None, fallback: T | None, last: T) -> T:
    if value is not None:
        return value
    return last if fallback is None else fallback
