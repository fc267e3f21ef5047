"""Audio for tests: human speech where the machine has it, tones and files of every kind made here."""

from __future__ import annotations

import io
import struct
import wave
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.audio.frame import AudioFrame

Samples = np.ndarray[Any, np.dtype[np.float32]]

LIBRIVOX = Path("/usr/share/pocketsphinx/test/data/librivox")
NO_SPEECH = "human speech is missing (Debian package pocketsphinx-testdata)"

needs_speech = pytest.mark.skipif(not LIBRIVOX.is_dir(), reason=NO_SPEECH)


def clip_files() -> list[Path]:
    """Five clips of 3 to 7 seconds, in the order in which they were read."""
    return sorted(LIBRIVOX.glob("*.wav"))


def transcripts() -> list[str]:
    """What is said in them, in small letters without punctuation."""
    lines = (LIBRIVOX / "transcription").read_text(encoding="utf-8").splitlines()
    return [line.partition("<s>")[2].partition("</s>")[0].strip() for line in lines if line.strip()]


def clip(path: Path) -> Samples:
    with wave.open(str(path)) as source:
        return (np.frombuffer(source.readframes(source.getnframes()), "<i2") / 32768).astype(np.float32)


def clips() -> list[Samples]:
    return [clip(path) for path in clip_files()]


def tone(seconds: float, rate: int = 16_000, hertz: float = 440.0) -> Samples:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def wav(content: bytes, *, kind: int = 1, channels: int = 1, rate: int = 16_000, bits: int = 16) -> bytes:
    """A WAV file around raw samples."""
    block = channels * bits // 8
    header = struct.pack("<HHIIHH", kind, channels, rate, rate * block, block, bits)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(content))
        + b"WAVEfmt "
        + struct.pack("<I", len(header))
        + header
        + b"data"
        + struct.pack("<I", len(content))
        + content
    )


def pcm16(samples: Samples, rate: int = 16_000) -> bytes:
    """A WAV file of 16 bits."""
    return wav((samples * 32767).astype("<i2").tobytes(), rate=rate)


def encoded(samples: Samples, container: str, codec: str, rate: int = 16_000) -> bytes:
    """A compressed file."""
    target = io.BytesIO()
    with av.open(target, mode="w", format=container) as sink:
        stream: Any = sink.add_stream(codec, rate=rate)
        stream.layout = "mono"
        frame = AudioFrame.from_ndarray((samples[None] * 32767).astype("<i2"), format="s16", layout="mono")
        frame.sample_rate = rate
        resampler = av.AudioResampler(format=stream.format, layout="mono", rate=rate, frame_size=stream.frame_size)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            sink.mux(stream.encode(piece))
        sink.mux(stream.encode(None))
    return target.getvalue()
