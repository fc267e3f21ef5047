"""WAV files with uncompressed samples, read exactly: every number comes out as it was written.

The lengths that a header claims are never trusted: what counts are the bytes that are there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.errors import UndecodableAudio

Samples = np.ndarray[Any, np.dtype[np.float32]]

LOUDEST = 2.0**15
"""Some float files hold integers' values; what is beyond them is no sound."""

RATES = range(1000, 768_001)
"""Samples a second that are believed."""

MOST_CHANNELS = 64

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")
_FORMAT = struct.Struct("<HHIIHH")


@dataclass(frozen=True, slots=True)
class Wave:
    """Sound of one channel."""

    samples: Samples
    """Within [-1, 1] for whole numbers; as written for floating-point ones. Several channels were averaged."""
    rate: int
    """Samples a second."""


@dataclass(frozen=True, slots=True)
class _Layout:
    kind: int
    channels: int
    rate: int
    bits: int


def read_wav(data: bytes, most_s: float) -> Wave | None:
    """Read a WAV file. None for what is no WAV, or one with compressed samples: another decoder may know it.

    Args:
        data: the whole file.
        most_s: seconds of sound that are allowed.

    Raises:
        UndecodableAudio: its header is broken, or it is too long.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return None
    layout: _Layout | None = None
    for name, content in _chunks(data):
        if name == b"fmt ":
            layout = _layout(bytes(content[:40]))
            if layout is None:
                return None
        elif name == b"data":
            if layout is None:
                raise UndecodableAudio("the WAV file has samples before it says what they are")
            return _wave(content, layout, most_s)
    raise UndecodableAudio("the WAV file holds no samples" if layout else "the WAV file has no format")


def _chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    view, at = memoryview(data), 12
    while at + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        at += 8
        # A recorder that was cut off, or writes to a pipe, leaves a length of 0 or of all ones: the rest is its sound.
        if name == b"data" and size in (0, 0xFFFFFFFF, 0x7FFFFFFF):
            size = len(data) - at
        yield name, view[at : at + size]
        at += size + size % 2


def _layout(content: bytes) -> _Layout | None:
    if len(content) < _FORMAT.size:
        raise UndecodableAudio("the WAV file's format is cut short")
    kind, channels, rate, _, block, bits = _FORMAT.unpack_from(content)
    if kind == _EXTENSIBLE:
        if content[26:40] != _GUID_TAIL:
            return None
        kind = struct.unpack_from("<H", content, 24)[0]
    widths = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64)}.get(kind)
    if widths is None:
        return None
    if not 1 <= channels <= MOST_CHANNELS or rate not in RATES or bits not in widths:
        raise UndecodableAudio(f"a WAV file of {channels} channels, {rate} Hz and {bits} bits cannot be read")
    if block != channels * bits // 8:
        raise UndecodableAudio(f"the WAV file's frames of {block} bytes do not hold {channels} samples of {bits} bits")
    return _Layout(kind, channels, rate, bits)


def _wave(content: memoryview, layout: _Layout, most_s: float) -> Wave:
    frame = layout.channels * layout.bits // 8
    frames = len(content) // frame
    if frames > most_s * layout.rate:
        raise UndecodableAudio(f"the audio is {frames / layout.rate:.0f} s long; at most {most_s:g} s are allowed")
    samples = _numbers(content[: frames * frame], layout)
    if layout.channels > 1:
        samples = samples.reshape(frames, layout.channels).mean(axis=1, dtype=np.float32)
    if layout.kind == _FLOAT and not np.isfinite(samples).all():
        raise UndecodableAudio("the WAV file holds samples that are no numbers")
    return Wave(bounded(samples), layout.rate)


def bounded(samples: Samples) -> Samples:
    """Samples that are never louder than full scale in integers: a spectrogram of more would be no numbers."""
    return np.clip(samples, -LOUDEST, LOUDEST)


def _numbers(content: memoryview, layout: _Layout) -> Samples:
    if layout.kind == _FLOAT:
        return np.frombuffer(content, dtype=f"<f{layout.bits // 8}").astype(np.float32)
    if layout.bits == 8:
        return ((np.frombuffer(content, dtype=np.uint8) - 128.0) / 128).astype(np.float32)
    if layout.bits == 24:
        triples = np.frombuffer(content, dtype=np.uint8).reshape(-1, 3)
        wide = np.zeros((len(triples), 4), dtype=np.uint8)
        wide[:, 1:] = triples
        # The lowest byte is zero, so 32-bit numbers hold 24-bit ones times 256.
        return (wide.view("<i4")[:, 0] / 2**31).astype(np.float32)
    number = np.frombuffer(content, dtype=f"<i{layout.bits // 8}")
    return (number / 2 ** (layout.bits - 1)).astype(np.float32)
