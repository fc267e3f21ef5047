"""The log-mel spectrogram of a clip that may still grow, in NumPy: it needs no lease and runs beside anything.

Each frame is computed once, 10 ms apart, as Whisper defines it. What is normalized against the loudest value is the
window, not the frame, so a window sees the maximum of all that has been heard when it is taken.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import fft

from actors.transcription.wav import Samples

HOP = 160
"""Samples between two frames."""
WINDOW = 3000
"""Frames of a window, 30 s."""
FRAMES_PER_S = 100

_SIZE = 400
_HALF = _SIZE // 2
_BLOCK = 4096
_PIECE = _BLOCK * HOP
_RANGE = 8.0
"""Decades below the loudest value that are kept."""


@cache
def mel_filters(count: int) -> Samples:
    """Whisper's filter bank (mels, frequencies), out of mlx-whisper's package, which is not imported."""
    package = find_spec("mlx_whisper")
    assert package is not None and package.origin is not None
    with np.load(Path(package.origin).parent / "assets" / "mel_filters.npz") as banks:
        return banks[f"mel_{count}"].astype(np.float32)


@cache
def _taper() -> Samples:
    return np.hanning(_SIZE + 1)[:-1].astype(np.float32)


class LogMel:
    """One clip. Not for several threads at once."""

    def __init__(self, mels: int) -> None:
        self._filters = mel_filters(mels)
        self._head: Samples | None = np.zeros(0, dtype=np.float32)
        """The first samples, until there are enough to mirror them; None afterwards."""
        self._rest = np.zeros(0, dtype=np.float32)
        self._frames: deque[Samples] = deque()
        self._gone = 0
        """Frames before those that are kept."""
        self._ready = 0
        self._loudest = -10.0
        self.samples = 0
        """Samples received."""
        self.finished = False

    @property
    def content(self) -> int:
        """Frames that begin within the clip."""
        return self.samples // HOP

    @property
    def ready(self) -> int:
        """Frames that can be asked for."""
        return min(self._ready, self.content) if self.finished else self._ready

    def feed(self, samples: Samples) -> None:
        """Append what was heard next."""
        assert not self.finished
        self.samples += len(samples)
        for first in range(0, len(samples), _PIECE):
            self._append(samples[first : first + _PIECE])

    def finish(self) -> None:
        """The clip is over: silence follows. May be repeated."""
        if not self.finished:
            self.finished = True
            self._append(np.zeros(2 * _SIZE, dtype=np.float32))

    @property
    def nbytes(self) -> int:
        """Bytes of the frames that are kept."""
        return (self._ready - self._gone) * self._filters.shape[0] * 4

    def forget(self, seek: int) -> None:
        """Keep no frames that nobody will ask for: those before `seek`."""
        while self._frames and self._gone + len(self._frames[0]) <= seek:
            self._gone += len(self._frames.popleft())

    def window(self, seek: int, size: int) -> Samples:
        """`size` frames from `seek` on, normalized, filled up to 3000 frames with zeros: (3000, mels)."""
        found = np.zeros((WINDOW, len(self._filters)), dtype=np.float32)
        found[:size] = self._normalized(self._slice(seek, seek + size))
        return found

    def opening(self) -> Samples:
        """The first 30 s, with silence behind a shorter clip: what a language is recognized from."""
        size = min(self._ready, WINDOW)
        silence = np.full((WINDOW - size, len(self._filters)), -10.0, dtype=np.float32)
        return self._normalized(np.concatenate([self._slice(0, size), silence]))

    def _append(self, samples: Samples) -> None:
        if self._head is not None:
            self._head = np.concatenate([self._head, samples])
            if len(self._head) <= _HALF:
                return
            mirrored = self._head[1 : _HALF + 1][::-1]
            self._rest, self._head = np.concatenate([mirrored, self._head]), None
        else:
            self._rest = np.concatenate([self._rest, samples])
        count = max(0, (len(self._rest) - _SIZE) // HOP + 1)
        for first in range(0, count, _BLOCK):
            self._compute(self._rest[first * HOP : (min(first + _BLOCK, count) - 1) * HOP + _SIZE])
        self._rest = self._rest[count * HOP :].copy()  # a view would keep all that was heard

    def _compute(self, samples: Samples) -> None:
        frames = np.lib.stride_tricks.sliding_window_view(samples, _SIZE)[::HOP] * _taper()
        spectrum: Any = fft.rfft(frames, axis=1)
        power = np.abs(spectrum) ** 2
        logs = np.log10(np.maximum(power @ self._filters.T, 1e-10)).astype(np.float32)
        self._loudest = max(self._loudest, float(logs.max()))
        self._frames.append(logs)
        self._ready += len(logs)

    def _slice(self, start: int, end: int) -> Samples:
        assert start >= self._gone, "these frames are forgotten"
        found, at = [np.zeros((0, len(self._filters)), dtype=np.float32)], self._gone
        for frames in self._frames:
            found.append(frames[max(0, start - at) : max(0, end - at)])
            at += len(frames)
            if at >= end:
                break
        return np.concatenate(found)

    def _normalized(self, logs: Samples) -> Samples:
        return ((np.maximum(logs, self._loudest - _RANGE) + 4.0) / 4.0).astype(np.float32)
