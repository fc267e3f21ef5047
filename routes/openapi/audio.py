"""The body of a transcription, as JSON; a form has the same fields, with the audio as a file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from routes.openapi.described import Described, Name
from routes.schema.audio import MOST_BEAMS

Share = Annotated[float, Field(ge=0, le=1)]


class InputAudio(Described):
    """Audio as chats carry it."""

    data: Name = Field(description="Base64.")


class AudioBody(Described):
    """A clip and how to transcribe it. One of `file`, `input_audio` and `audio` holds it."""

    file: str | None = Field(None, description="Base64, or a data URL.")
    audio: str | None = Field(None, description="As `file`.")
    input_audio: InputAudio | None = None
    model: Any = Field(None, description="Whatever it says, the configured model listens.")
    language: str | None = Field(None, description="Code or English name; `auto` or none finds out.")
    prompt: str | None = Field(None, description="What might have been said before.")
    vocabulary: list[str] | str | None = Field(None, description="Terms to expect; a string is divided at commas.")
    response_format: Literal["json", "verbose_json", "text", "srt", "vtt"] | None = None
    temperature: Share | None = None
    stream: bool | None = None
    timestamp_granularities: list[Literal["segment", "word"]] | None = None
    beam_size: Annotated[int, Field(ge=1, le=MOST_BEAMS)] | None = Field(None, description="With temperature 0 only.")
    condition_on_previous_text: bool | None = None
    without_timestamps: bool | None = None
    no_speech_threshold: Share | None = None
    logprob_threshold: Annotated[float, Field(ge=-100, le=0)] | None = None
    compression_ratio_threshold: Annotated[float, Field(ge=0, le=100)] | None = None
    vad: bool | None = Field(None, description="Listen for speech first.")
    vad_threshold: Share | None = None
    vad_min_speech_ms: Annotated[float, Field(ge=0, le=60_000)] | None = None
    vad_trim: bool | None = None
    faithful: bool | None = None
    audio_ctx: Annotated[int, Field(ge=1, le=1500)] | None = None
