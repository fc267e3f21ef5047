"""The body that begins a live transcription."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from routes.openapi.audio import Share
from routes.openapi.described import Described
from routes.schema.audio import MOST_BEAMS


class AudioSessionBody(Described):
    """How to transcribe audio that is still to come."""

    model: Any = Field(None, description="Whatever it says, the configured model listens.")
    language: str | None = Field(None, description="Code or English name; `auto` or none finds out.")
    prompt: str | None = Field(None, description="What might have been said before.")
    vocabulary: list[str] | str | None = Field(None, description="Terms to expect; a string is divided at commas.")
    response_format: Literal["json", "verbose_json"] | None = None
    partials: bool | None = Field(None, description="Say what the unfinished window might hold, while it grows.")
    temperature: Share | None = None
    timestamp_granularities: list[Literal["segment", "word"]] | None = None
    beam_size: Annotated[int, Field(ge=1, le=MOST_BEAMS)] | None = Field(None, description="With temperature 0 only.")
    condition_on_previous_text: bool | None = None
    without_timestamps: bool | None = None
    no_speech_threshold: Share | None = None
    logprob_threshold: Annotated[float, Field(ge=-100, le=0)] | None = None
    compression_ratio_threshold: Annotated[float, Field(ge=0, le=100)] | None = None
    vad: bool | None = Field(None, description="Transcribe nothing before there was speech.")
    vad_threshold: Share | None = None
    vad_min_speech_ms: Annotated[float, Field(ge=0, le=60_000)] | None = None
    vad_trim: bool | None = None
    faithful: bool | None = None
    audio_ctx: Annotated[int, Field(ge=1, le=1500)] | None = None
