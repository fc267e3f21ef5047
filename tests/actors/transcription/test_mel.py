from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.transcription.mel import HOP, LogMel

RATE = 16_000


def noise(seconds: float) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 0.1, round(seconds * RATE)).astype(np.float32)


def whole(samples: np.ndarray) -> LogMel:
    found = LogMel(80)
    found.feed(samples)
    found.finish()
    return found


@given(st.lists(st.integers(0, 90_000), max_size=6), st.integers(0, 450), st.integers(1, 50))
def test_frames_are_the_same_however_they_came_and_whatever_is_forgotten(cuts: list[int], seek: int, size: int) -> None:
    samples = noise(5)
    mel = LogMel(80)
    for piece in np.split(samples, sorted(min(cut, len(samples)) for cut in cuts)):
        mel.feed(piece)
    mel.finish()
    mel.forget(seek)
    assert np.allclose(mel.window(seek, size), whole(samples).window(seek, size), atol=1e-5)


def test_what_is_forgotten_is_not_kept_and_cannot_be_asked_for() -> None:
    mel = LogMel(80)
    for second in np.split(noise(60), 60):
        mel.feed(second)
    before = mel.nbytes
    assert before == pytest.approx(60 * 100 * 80 * 4, rel=0.01)
    mel.forget(3000)
    assert mel.nbytes == pytest.approx(before / 2, rel=0.04)
    with pytest.raises(AssertionError, match="forgotten"):
        mel.window(0, 100)


def test_a_spectrogram_does_not_keep_the_sound_it_was_made_of() -> None:
    tracemalloc.start()
    try:
        mel = LogMel(80)
        for _ in range(2):
            mel.feed(noise(120))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert mel.content == 240 * RATE // HOP
    assert held < 1.2 * mel.nbytes
