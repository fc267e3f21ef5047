from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import UndecodableAudio
from actors.transcription.audio import RATE, blocks, decode
from actors.transcription.wav import read_wav
from tests.support.sound import encoded, pcm16, tone, wav


def heard(data: bytes, most_s: float = 60.0) -> np.ndarray:
    return decode(data, most_s, 30.0)


@given(st.lists(st.integers(-(2**15), 2**15 - 1), max_size=100))
def test_16_bit_samples_come_out_as_they_were_written(begins: list[int]) -> None:
    numbers = [*begins, *[1] * 1600]
    samples = heard(wav(np.array(numbers, "<i2").tobytes()))
    assert (samples * 2**15).tolist() == numbers


def test_8_bit_samples_are_unsigned() -> None:
    assert heard(wav(bytes([0, 128, 255] * 1000), bits=8))[:3].tolist() == [-1.0, 0.0, 127 / 128]


def test_24_bit_samples_keep_their_sign() -> None:
    assert heard(wav(b"\x00\x00\x80\xff\xff\xff\x00\x00\x40" * 1000, bits=24))[:3].tolist() == [-1.0, -(2.0**-23), 0.5]


def test_32_bit_samples_are_scaled() -> None:
    data = np.array([-(2**31), 2**30] * 1000, "<i4").tobytes()
    assert heard(wav(data, bits=32))[:2].tolist() == [-1.0, 0.5]


@pytest.mark.parametrize("bits", [32, 64])
def test_floating_point_samples_come_out_as_they_were_written(bits: int) -> None:
    data = np.array([0.25, -1.5] * 1000, f"<f{bits // 8}").tobytes()
    assert heard(wav(data, kind=3, bits=bits))[:2].tolist() == [0.25, -1.5]


def test_channels_are_averaged() -> None:
    data = np.array([[2**14, 0]] * 2000, "<i2").tobytes()
    assert heard(wav(data, channels=2))[:2].tolist() == [0.25, 0.25]


def test_an_extensible_header_is_read() -> None:
    body = struct.pack("<HHIIHHHHIH", 0xFFFE, 1, 16000, 32000, 2, 16, 22, 16, 4, 1)
    body += bytes.fromhex("000000001000800000aa00389b71")
    content = np.full(2000, 2**14, "<i2").tobytes()
    data = b"RIFF\0\0\0\0WAVEfmt " + struct.pack("<I", len(body)) + body + b"data" + struct.pack("<I", 4000) + content
    assert heard(data)[0] == 0.5


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000])
def test_another_rate_keeps_the_tone_and_the_length(rate: int) -> None:
    samples = heard(pcm16(tone(1.0, rate), rate))
    assert abs(len(samples) - 16_000) <= 2
    inner, wanted = samples[2000:14000], tone(1.0)[2000:14000]
    assert np.abs(inner - wanted).max() < 0.02


@pytest.mark.parametrize(
    ("container", "codec", "rate"),
    [("mp3", "libmp3lame", 16_000), ("flac", "flac", 16_000), ("ogg", "libopus", 48_000), ("mp4", "aac", 44_100)],
)
def test_compressed_files_are_decoded(container: str, codec: str, rate: int) -> None:
    samples = heard(encoded(tone(1.0, rate), container, codec, rate))
    assert abs(len(samples) - 16_000) < 2500
    spectrum = np.abs(np.fft.rfft(samples[:16_000], 16_000))
    assert abs(int(spectrum.argmax()) - 440) <= 2


def test_a_cut_file_gives_what_is_there() -> None:
    whole = pcm16(tone(2.0))
    assert len(heard(whole[: len(whole) // 2 + 1])) == (len(whole) // 2 + 1 - 44) // 2


def test_a_claimed_length_counts_for_nothing() -> None:
    data = bytearray(pcm16(tone(0.2)))
    data[40:44] = struct.pack("<I", 7200 * 32000)
    assert len(heard(bytes(data))) == 3200


@pytest.mark.parametrize("claimed", [0, 0xFFFFFFFF])
def test_a_stream_of_unknown_length_is_read_to_its_end(claimed: int) -> None:
    data = bytearray(pcm16(tone(0.2)))
    data[40:44] = struct.pack("<I", claimed)
    assert len(heard(bytes(data))) == 3200


def test_a_clip_of_a_twentieth_of_a_second_is_too_short() -> None:
    with pytest.raises(UndecodableAudio, match=r"0\.050 s long; at least 0\.1 s"):
        heard(pcm16(tone(0.05)))


def test_more_sound_than_allowed_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(UndecodableAudio, match="at most 1 s"):
        heard(pcm16(tone(2.0)), most_s=1.0)
    with pytest.raises(UndecodableAudio, match="longer than the 1 s"):
        heard(encoded(tone(2.0), "flac", "flac"), most_s=1.0)


def test_hours_in_a_small_file_are_decoded_piece_by_piece() -> None:
    silence = np.zeros(RATE, np.float32)
    data = encoded(np.tile(silence, 1800), "flac", "flac")
    assert len(data) < 500_000
    tracemalloc.start()
    try:
        count = sum(len(block) for block in blocks(data, 3600.0, 60.0))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 1800 * RATE
    assert most < 4 * len(silence) * 60, "a minute's samples at most"


def test_time_that_others_need_for_the_pieces_does_not_count() -> None:
    now = 0.0
    pieces = blocks(encoded(tone(120.0), "flac", "flac"), 600.0, 30.0, clock=lambda: now)
    assert next(pieces, None) is not None
    for _ in pieces:
        now += 20.0
    assert now >= 60.0


def test_packets_are_gathered() -> None:
    pieces = [len(block) for block in blocks(encoded(tone(60.0), "flac", "flac"), 3600.0, 60.0)]
    assert sum(pieces) == 60 * RATE
    assert len(pieces) == 4


def test_decoding_that_takes_too_long_is_ended() -> None:
    ticks = iter(range(0, 1000, 20))
    with pytest.raises(UndecodableAudio, match="too long to decode"):
        decode(encoded(tone(2.0), "flac", "flac"), 60.0, 30.0, clock=lambda: next(ticks))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello, this is no audio" * 100,
        b"RIFF\0\0\0\0WAVE",
        pcm16(tone(0.2))[:30],
        wav(bytes(8000), channels=0),
        wav(bytes(8000), rate=0),
        wav(bytes(8000), bits=12),
        wav(np.full(4000, np.nan, "<f4").tobytes(), kind=3, bits=32),
        b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:9,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile /etc/passwd\n",
        b"ID3\x04\0\0\0\0\0\0" + bytes(4000),
        b"fLaC" + b"\xff" * 4000,
        b"OggS" + b"\x00" * 4000,
    ],
)
def test_what_is_no_audio_is_one_kind_of_error(data: bytes) -> None:
    with pytest.raises(UndecodableAudio):
        heard(data)


def test_what_is_louder_than_integers_is_cut() -> None:
    loud = np.array([3e38, -3e38, 0.5, 20_000.0] * 1000, "<f4")
    assert heard(wav(loud.tobytes(), kind=3, bits=32))[:4].tolist() == [2.0**15, -(2.0**15), 0.5, 20_000.0]


def test_a_few_bytes_are_not_hours() -> None:
    def au(rate: int) -> bytes:
        content = bytes(16_000)
        return b".snd" + struct.pack(">5I", 24, len(content), 3, rate, 1) + content

    assert len(heard(au(16_000))) == 8000
    with pytest.raises(UndecodableAudio, match="10 samples a second"):
        heard(au(10), 7200.0)


@given(st.binary(max_size=300), st.integers(0, 60), st.integers(0, 255))
def test_a_broken_header_never_does_more_than_that(tail: bytes, place: int, value: int) -> None:
    data = bytearray(pcm16(tone(0.2)) + tail)
    data[place] = value
    try:
        read_wav(bytes(data), 60.0)
    except UndecodableAudio:
        return
