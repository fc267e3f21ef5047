"""What a request gets when it does not say how to sample. Pure."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TypeVar

from actors.errors import InvalidRequest
from actors.generation.messages import Sampling, ToneCurve
from actors.models.card import ModelCard
from actors.settings import GenerationSettings, ToneSettings
from routes.schema.sampling import SamplingFields, ToneFields

T = TypeVar("T")

NO_THINK_TEMPERATURE = 0.7
"""Default temperature at most of a turn in which a thinking model answers at once."""

XTC_THRESHOLD = 0.1
PENALTY_WINDOW = 20
"""As in mlx-lm."""


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """For requests that leave a field out."""

    temperature: float
    """0 is greedy."""
    top_p: float
    """0 is off."""
    top_k: int
    """0 is off."""
    tone: ToneSettings
    """The tone curve."""


def sampling_defaults(settings: GenerationSettings, card: ModelCard) -> SamplingDefaults:
    """The server's settings win over the model author's defaults, and those over 0.7 / off / off."""
    return SamplingDefaults(
        temperature=_first(settings.temperature, card.temperature, 0.7),
        top_p=_first(settings.top_p, card.top_p, 0.0),
        top_k=_first(settings.top_k, card.top_k, 0),
        tone=settings.hlg,
    )


def resolve_sampling(
    wanted: SamplingFields, defaults: SamplingDefaults, vocabulary: int, exempt: tuple[int, ...], thinks: bool
) -> Sampling:
    """Sampling of one row. Without a seed it gets a random one of 64 bits; a top_k of the whole vocabulary is off.

    Args:
        exempt: tokens that XTC never excludes.
        thinks: False for a turn of a thinking model that must not think; unless the request says otherwise, it is
            sampled no hotter than `NO_THINK_TEMPERATURE`.

    Raises:
        InvalidRequest: `logit_bias` names a token that the model does not have.
    """
    for token, _ in wanted.logit_bias:
        if token >= vocabulary:
            raise InvalidRequest(f"logit_bias names token {token}, which is not in the model's vocabulary")
    temperature = defaults.temperature if thinks else min(defaults.temperature, NO_THINK_TEMPERATURE)
    top_k = _first(wanted.top_k, defaults.top_k)
    return Sampling(
        temperature=_first(wanted.temperature, temperature),
        top_p=_first(wanted.top_p, defaults.top_p),
        top_k=0 if top_k >= vocabulary else top_k,
        min_p=_first(wanted.min_p, 0.0),
        seed=secrets.randbits(64) if wanted.seed is None else wanted.seed % 2**64,
        xtc_probability=_first(wanted.xtc_probability, 0.0),
        xtc_threshold=_first(wanted.xtc_threshold, XTC_THRESHOLD),
        xtc_exempt=exempt if wanted.xtc_probability else (),
        logit_bias=wanted.logit_bias,
        # As mlx-lm has it, 0 is off, like 1.
        repetition_penalty=wanted.repetition.strength or 1.0,
        repetition_window=_first(wanted.repetition.window, PENALTY_WINDOW),
        presence_penalty=_first(wanted.presence.strength, 0.0),
        presence_window=_first(wanted.presence.window, PENALTY_WINDOW),
        frequency_penalty=_first(wanted.frequency.strength, 0.0),
        frequency_window=_first(wanted.frequency.window, PENALTY_WINDOW),
        tone=_tone(wanted.tone, defaults.tone),
    )


def _tone(wanted: ToneFields | None, default: ToneSettings) -> ToneCurve | None:
    """The request's curve, field by field over the server's."""
    enabled = default.enabled if wanted is None or wanted.enabled is None else wanted.enabled
    if not enabled:
        return None
    return ToneCurve(
        width=_first(wanted and wanted.width, default.width),
        shoulder=_first(wanted and wanted.shoulder, default.shoulder),
        toe=_first(wanted and wanted.toe, default.toe),
        pivot_offset=_first(wanted and wanted.pivot_offset, default.pivot_offset),
    )


def _first(*values: T | None) -> T:
    """The first one that is said."""
    return next(value for value in values if value is not None)
