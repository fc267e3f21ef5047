"""Fields of all protocols that say how to pick tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from routes.openapi.described import MOST, Bias, Curve, Described, Label, Share, Strength, TokenId, Window

Biases = Annotated[dict[TokenId, Bias], Field(max_length=4096, json_schema_extra={"additionalProperties": False})]


class Tone(Described):
    """The tone curve; what is not said is as the server's settings have it."""

    enabled: bool | None = Field(None, description="Whether to use it.")
    width: Curve | None = Field(None, description="Half-width of its straight middle, in nats.")
    shoulder: Curve | None = Field(None, description="Softness above the middle.")
    toe: Curve | None = Field(None, description="Softness below the middle.")
    pivot_offset: Curve | None = Field(None, description="Distance of its pivot from the best token, in nats.")


class Sampling(Described):
    """How to pick tokens."""

    temperature: Annotated[float, Field(ge=0, le=5)] | None = Field(None, description="0 is greedy.")
    top_p: Share | None = Field(None, description="0 and 1 are off.")
    top_k: Annotated[int, Field(ge=0, le=MOST)] | None = Field(None, description="0 is off.")
    min_p: Share | None = Field(None, description="0 is off.")
    seed: Annotated[int, Field(ge=-(2**63), le=2**64 - 1)] | None = Field(
        None, description="The same seed gives the same answer, alone or in company."
    )
    xtc_probability: Share | None = Field(None, description="How often the likeliest tokens are left out; 0 is off.")
    xtc_threshold: Annotated[float, Field(ge=0, le=0.5)] | None = Field(
        None, description="How likely a token must be to be left out."
    )
    repetition_penalty: Annotated[float, Field(ge=0, le=1000)] | None = Field(None, description="0 and 1 are off.")
    repetition_context_size: Window | None = None
    presence_penalty: Strength | None = Field(None, description="0 is off.")
    presence_context_size: Window | None = None
    frequency_penalty: Strength | None = Field(None, description="0 is off.")
    frequency_context_size: Window | None = None
    hlg: Tone | None = None


class Biased(Described):
    """What some tokens are given on top, in the protocols that have it."""

    logit_bias: Biases | None = Field(None, description="By token id, what is added to its logit.")


class Affinity(Described):
    """What a request says to the prompt cache."""

    session_id: Label | None = Field(None, description="Name of the conversation; its prefixes are kept longer.")
    prompt_cache_key: Label | None = Field(None, description="Another name of `session_id`, which wins.")
    cache_salt: Annotated[str, Field(min_length=1, max_length=512)] | None = Field(
        None, description="Prefixes are shared only between requests with the same salt."
    )
    adapter: Literal["none"] | None = Field(None, description="No adapter can be asked for yet.")
