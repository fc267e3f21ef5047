"""From the bytes of any audio file to what Whisper hears: 16 kHz, one channel, float32. Blocks; never on an event loop.

Uncompressed WAV is read by our own parser, everything else by FFmpeg's libraries in this process, restricted to
containers that hold sound themselves: formats that only point to other files or addresses are not opened.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.error import FFmpegError

from actors.errors import UndecodableAudio
from actors.transcription.wav import RATES, Samples, bounded, read_wav

RATE = 16_000
"""Samples a second that Whisper hears."""

LEAST_S = 0.1
"""Shorter clips are refused."""

CONTAINERS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,eac3,flac,flv,matroska,mov,mp3,mpeg,mpegts,ogg,tta,w64,wav,wv,webm"
)
"""FFmpeg's names of the containers that are opened."""

_BLOCK = 1 << 16
_PIECE = 1 << 18
"""Samples that are given at once, 16 s. A packet of MP3 has 26 ms, which whoever listens would pay for one by one."""

_PATIENCE_WITH_PACKETS = 64


def blocks(
    data: bytes, most_s: float, timeout_s: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[Samples]:
    """The clip at 16 kHz, piece by piece: of a file of some kilobytes the whole might be a gigabyte.

    Args:
        data: a whole file.
        most_s: seconds of sound that are allowed.
        timeout_s: seconds that decoding may take.
        clock: tells the seconds.

    Raises:
        UndecodableAudio: the bytes are no audio, or it is shorter than 0.1 s, too long, or takes too long to decode.
    """
    pieces, held, size, given, spent = _pieces(data, most_s, timeout_s), list[Samples](), 0, 0, 0.0
    while True:
        came = clock()
        block = next(pieces, None)
        spent += clock() - came
        if block is None:
            break
        size += len(block)
        if size > most_s * RATE:
            raise UndecodableAudio(f"the audio is longer than the {most_s:g} s that are allowed")
        if spent > timeout_s:
            raise UndecodableAudio("the audio takes too long to decode")
        held.append(block)
        if size - given >= _PIECE:
            yield np.concatenate(held)
            held, given = [], size
    if held:
        yield np.concatenate(held)
    if size < LEAST_S * RATE:
        raise UndecodableAudio(f"the audio is {size / RATE:.3f} s long; at least {LEAST_S:g} s are needed")


def decode(data: bytes, most_s: float, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> Samples:
    """All that `blocks` gives, in one array that grew in its place."""
    found = bytearray()
    for block in blocks(data, most_s, timeout_s, clock):
        found += block.data.cast("B")
    return np.frombuffer(found, dtype=np.float32)


def _pieces(data: bytes, most_s: float, timeout_s: float) -> Iterator[Samples]:
    wave = read_wav(data, most_s)
    if wave is None:
        return _decoded(data, timeout_s)
    return iter((wave.samples,)) if wave.rate == RATE else _resampled(wave.samples, wave.rate)


def _resampled(samples: Samples, rate: int) -> Iterator[Samples]:
    resampler = AudioResampler(format="flt", layout="mono", rate=RATE)
    for start in range(0, len(samples), _BLOCK):
        frame = AudioFrame.from_ndarray(samples[None, start : start + _BLOCK], format="flt", layout="mono")
        frame.sample_rate = rate
        yield from _arrays(resampler.resample(frame))
    yield from _arrays(resampler.resample(None))


def _decoded(data: bytes, timeout_s: float) -> Iterator[Samples]:
    try:
        options = {"format_whitelist": CONTAINERS, "protocol_whitelist": "none"}
        with av.open(io.BytesIO(data), mode="r", options=options, timeout=timeout_s) as container:
            if not container.streams.audio:
                raise UndecodableAudio("the file holds no sound")
            yield from _stream(container, container.streams.audio[0])
    except (FFmpegError, OSError, ValueError, LookupError) as error:
        words = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UndecodableAudio(f"the audio cannot be decoded: {words}") from None


def _stream(container: Any, stream: Any) -> Iterator[Samples]:
    """Damaged packets are left out, as players do, until there are too many of them."""
    resampler = AudioResampler(format="flt", layout="mono", rate=RATE)
    bad = 0
    for packet in container.demux(stream):
        try:
            frames = packet.decode()
        except FFmpegError:
            bad += 1
            if bad > _PATIENCE_WITH_PACKETS:
                raise
            continue
        for frame in frames:
            frame.pts = None
            # With a few samples a second one frame of some bytes would be hours, before anybody has counted them.
            if frame.sample_rate not in RATES:
                raise UndecodableAudio(f"{frame.sample_rate} samples a second are no rate of audio")
            yield from _arrays(resampler.resample(frame))
    yield from _arrays(resampler.resample(None))


def _arrays(frames: list[AudioFrame]) -> Iterator[Samples]:
    for frame in frames:
        yield bounded(np.nan_to_num(cast(Samples, frame.to_ndarray())[0], copy=False))
