"""How a request wants tokens picked. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from actors.errors import InvalidRequest
from routes.schema import fields
from routes.schema.fields import Body

_MOST = 2**31 - 1
_STRONGEST_BIAS = 1e6
_MOST_BIASED = 4096
_CURVE = ("width", "shoulder", "toe", "pivot_offset")


@dataclass(frozen=True, slots=True)
class ToneFields:
    """What a request says of the tone curve; None leaves it to the server's settings."""

    enabled: bool | None
    """Whether to use it."""
    width: float | None
    """Half-width of its straight middle, in nats."""
    shoulder: float | None
    """Softness above."""
    toe: float | None
    """Softness below."""
    pivot_offset: float | None
    """Distance of the pivot from the best token, in nats."""


@dataclass(frozen=True, slots=True)
class PenaltyFields:
    """One penalty."""

    strength: float | None
    """None is off."""
    window: int | None
    """Last tokens it looks at; 0 is all of them."""


@dataclass(frozen=True, slots=True)
class SamplingFields:
    """Everything about picking tokens, as far as the request says. None means that it does not say."""

    temperature: float | None
    """0 is greedy."""
    top_p: float | None
    """0 and 1 are off."""
    top_k: int | None
    """0 is off."""
    min_p: float | None
    """0 is off."""
    seed: int | None
    """Any 64-bit integer, signed or not."""
    xtc_probability: float | None
    """0 is off."""
    xtc_threshold: float | None
    """At most 0.5."""
    logit_bias: tuple[tuple[int, float], ...]
    """Token ids and what is added to their logits."""
    repetition: PenaltyFields
    """0 and 1 are off."""
    presence: PenaltyFields
    """0 is off."""
    frequency: PenaltyFields
    """0 is off."""
    tone: ToneFields | None
    """The `hlg` object."""


def read_sampling(body: Body) -> SamplingFields:
    """Check and read the fields of sampling, bias and penalties.

    Raises:
        InvalidRequest: the first one that is wrong.
    """
    return SamplingFields(
        temperature=fields.number(body, "temperature", 0, 5),
        top_p=fields.number(body, "top_p", 0, 1),
        top_k=fields.integer(body, "top_k", 0, _MOST),
        min_p=fields.number(body, "min_p", 0, 1),
        seed=fields.integer(body, "seed", -(2**63), 2**64 - 1),
        xtc_probability=fields.number(body, "xtc_probability", 0, 1),
        xtc_threshold=fields.number(body, "xtc_threshold", 0, 0.5),
        logit_bias=_logit_bias(body),
        repetition=_penalty(body, "repetition", 0),
        presence=_penalty(body, "presence", -1000),
        frequency=_penalty(body, "frequency", -1000),
        tone=_tone(body),
    )


def read_top_logprobs(body: Body) -> int | None:
    """`logprobs` and `top_logprobs` in one: None asks for nothing, 0 for each token's own log-probability.

    Raises:
        InvalidRequest: one is ill-typed or out of range. The texts are mlx-lm's own.
    """
    wanted = fields.boolean(body, "logprobs")
    top = body.get("top_logprobs")
    if top is not None and (isinstance(top, bool) or not isinstance(top, int)):
        raise InvalidRequest("top_logprobs must be of type int")
    if isinstance(top, int) and top != -1:
        fields.integer(body, "top_logprobs", 0, 11)
    if isinstance(top, int) and top > 0:
        return top
    return 0 if wanted else None


def _logit_bias(body: Body) -> tuple[tuple[int, float], ...]:
    bias = body.get("logit_bias")
    if bias is None:
        return ()
    if not isinstance(bias, dict) or not all(_is_token(key) and _is_number(value) for key, value in bias.items()):
        raise InvalidRequest("logit_bias must be a dict of int to float")
    if len(bias) > _MOST_BIASED:
        raise InvalidRequest(f"logit_bias must have at most {_MOST_BIASED} entries")
    if any(abs(value) > _STRONGEST_BIAS for value in bias.values()):
        raise InvalidRequest(f"logit_bias values must be within {_STRONGEST_BIAS:g}")
    return tuple((int(key), float(value)) for key, value in bias.items())


def _is_token(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) <= 10


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _penalty(body: Body, name: str, least: float) -> PenaltyFields:
    return PenaltyFields(
        fields.number(body, f"{name}_penalty", least, 1000), fields.integer(body, f"{name}_context_size", 0, _MOST)
    )


def _tone(body: Body) -> ToneFields | None:
    curve = fields.mapping(body, "hlg")
    if curve is None:
        return None
    named = {f"hlg.{key}": value for key, value in curve.items()}
    width, shoulder, toe, offset = (fields.number(named, f"hlg.{name}", 0, 100) for name in _CURVE)
    return ToneFields(fields.boolean(named, "hlg.enabled"), width, shoulder, toe, offset)
