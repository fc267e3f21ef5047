"""Silero VAD through onnxruntime: how likely each 32 ms of a clip are speech. Neither torch nor MLX is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from actors.transcription.speech_spans import FRAME
from actors.transcription.wav import Samples

CONTEXT = 64
"""Samples before a frame that the model sees too."""

_MOST_FRAMES = 2048
"""Frames in one call, a minute of sound."""

_PIECE = _MOST_FRAMES * FRAME


class VoiceDetector:
    """The model, read once a process. May be used by several threads at once.

    Raises:
        Exception: the file is no model that onnxruntime reads.
    """

    def __init__(self, model: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def run(self, frames: Samples, h: Samples, c: Samples) -> tuple[Samples, Samples, Samples]:
        """Probabilities of frames of 576 samples, and the state behind them."""
        found: Any = self._session.run(None, {"input": frames, "h": h, "c": c})
        return found[0], found[1], found[2]


class VoiceStream:
    """One clip, heard piece by piece. Where it is cut makes no difference."""

    def __init__(self, detector: VoiceDetector) -> None:
        self._detector = detector
        self._h = np.zeros((1, 1, 128), dtype=np.float32)
        self._c = np.zeros((1, 1, 128), dtype=np.float32)
        self._rest = np.zeros(CONTEXT, dtype=np.float32)

    def feed(self, samples: Samples) -> Samples:
        """Probabilities of the frames that are complete now."""
        found: list[Samples] = []
        for first in range(0, len(samples), _PIECE):
            held = np.concatenate([self._rest, samples[first : first + _PIECE]])
            count = (len(held) - CONTEXT) // FRAME
            self._rest = held[count * FRAME :].copy()
            found.append(self._run(held, count))
        return np.concatenate(found) if found else np.zeros(0, dtype=np.float32)

    def finish(self) -> Samples:
        """The probability of what is left, filled up with silence; nothing when nothing is left."""
        left = len(self._rest) - CONTEXT
        if left == 0:
            return np.zeros(0, dtype=np.float32)
        held = np.pad(self._rest, (0, FRAME - left))
        self._rest = held[-CONTEXT:]
        return self._run(held, 1)

    def _run(self, held: Samples, count: int) -> Samples:
        found: list[Samples] = []
        for first in range(0, count, _MOST_FRAMES):
            number = min(_MOST_FRAMES, count - first)
            piece = held[first * FRAME : (first + number) * FRAME + CONTEXT]
            frames = np.lib.stride_tricks.sliding_window_view(piece, CONTEXT + FRAME)[::FRAME]
            probabilities, self._h, self._c = self._detector.run(np.ascontiguousarray(frames), self._h, self._c)
            found.append(probabilities)
        return np.concatenate(found) if found else np.zeros(0, dtype=np.float32)
