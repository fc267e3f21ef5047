from __future__ import annotations

import subprocess
import sys
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.models import silero
from actors.transcription.speech_spans import FRAME, Span, SpeechSpans
from actors.transcription.vad import VoiceDetector, VoiceStream
from tests.support.sound import clips, needs_speech, tone


@cache
def detector() -> VoiceDetector:
    return VoiceDetector(silero.ensure(progress=False))


def probabilities(samples: np.ndarray) -> np.ndarray:
    stream = VoiceStream(detector())
    return np.concatenate([stream.feed(samples), stream.finish()])


def spans(values: list[float], least_ms: float = 250.0, length: int | None = None) -> list[Span]:
    found = SpeechSpans(0.5, least_ms)
    for value in values:
        found.feed(value)
    return found.spans(len(values) * FRAME if length is None else length)


@needs_speech
def test_people_are_heard_in_every_clip() -> None:
    for samples in clips():
        assert probabilities(samples).max() > 0.9


def test_silence_and_a_tone_are_no_speech() -> None:
    assert probabilities(np.zeros(32_000, np.float32)).max() < 0.5
    assert probabilities(tone(2.0)).max() < 0.5


@needs_speech
@settings(max_examples=10)
@given(st.lists(st.integers(1, 9000), min_size=1, max_size=8))
def test_where_a_clip_is_cut_makes_no_difference(cuts: list[int]) -> None:
    samples = clips()[1]
    stream = VoiceStream(detector())
    places = np.cumsum(cuts)
    found = [stream.feed(piece) for piece in np.split(samples, places[places < len(samples)])]
    np.testing.assert_allclose(np.concatenate([*found, stream.finish()]), probabilities(samples), atol=1e-5)


def test_neither_torch_nor_mlx_is_imported() -> None:
    code = "import sys, actors.transcription.vad; print([n for n in ('torch', 'mlx', 'mlx.core') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_word_is_a_span_with_its_padding() -> None:
    assert spans([0.0] * 10 + [0.9] * 20 + [0.0] * 10) == [Span(10 * FRAME - 480, 30 * FRAME + 480)]


def test_a_short_click_is_no_speech() -> None:
    assert spans([0.0] * 10 + [0.9] * 7 + [0.0] * 10) == []


def test_a_short_pause_ends_nothing() -> None:
    assert len(spans([0.9] * 20 + [0.0] * 3 + [0.9] * 20)) == 1


def test_a_doubtful_frame_ends_nothing() -> None:
    assert len(spans([0.9] * 20 + [0.4] * 30 + [0.9] * 20)) == 1


def test_speech_that_is_cut_off_reaches_to_the_end() -> None:
    assert spans([0.0] * 4 + [0.9] * 20, length=24 * FRAME - 100) == [Span(4 * FRAME - 480, 24 * FRAME - 100)]


def test_close_spans_share_the_silence_between_them() -> None:
    first, second = spans([0.9] * 20 + [0.0] * 6 + [0.9] * 20)
    assert first.end <= second.start


@given(st.lists(st.floats(0, 1), max_size=300))
def test_spans_are_in_order_and_within_the_clip(values: list[float]) -> None:
    found = spans(values, least_ms=64)
    edges = [edge for span in found for edge in (span.start, span.end)]
    assert edges == sorted(edges)
    assert all(0 <= edge <= len(values) * FRAME for edge in edges)


@given(st.lists(st.floats(0, 1), max_size=100))
def test_there_are_spans_exactly_when_speech_was_heard(values: list[float]) -> None:
    found = SpeechSpans(0.5, 64)
    for value in values:
        found.feed(value)
    assert bool(found.spans(len(values) * FRAME)) >= found.heard
