"""How a clip is to be transcribed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Task = Literal["transcribe", "translate"]

LADDER = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Temperatures that are tried in turn while a window comes out badly."""


@dataclass(frozen=True, slots=True)
class TranscriptionOptions:
    """Names and defaults are those of openai-whisper's `transcribe`."""

    task: Task = "transcribe"
    """`translate` writes English whatever is spoken; models that know English alone do not translate."""
    language: str | None = None
    """Code of what is spoken; None finds out from the first 30 seconds."""
    temperatures: tuple[float, ...] = LADDER
    """Tried in turn; 0 takes the likeliest tokens."""
    beam_size: int | None = None
    """Width of the beam search at temperature 0; None is greedy."""
    prompt: str = ""
    """What might have been said before; its last 223 tokens count."""
    vocabulary: tuple[str, ...] = ()
    """Terms to expect, put behind the prompt as far as they fit."""
    condition_on_previous_text: bool = True
    """Whether each window sees the text before it."""
    without_timestamps: bool = False
    """Whether text is all that is sought: one segment a window."""
    word_timestamps: bool = False
    """Whether words get times of their own."""
    compression_ratio_threshold: float | None = 2.4
    """Text that zlib makes smaller by more than this repeats itself and is tried anew."""
    logprob_threshold: float | None = -1.0
    """Text less likely than this on average is tried anew."""
    no_speech_threshold: float | None = 0.6
    """A window is skipped as silence above this, unless its text is likely."""
    faithful: bool = False
    """Whether mlx-whisper's own graph is run, step by step as it does."""
    audio_ctx: int | None = None
    """Encoder positions of 20 ms that are computed, from the window's start; None computes them all."""
