from __future__ import annotations

from typing import Any

import pytest

from actors.errors import InvalidRequest
from actors.transcription.messages import Transcript
from actors.transcription.options import LADDER
from routes.schema.audio import body_of_form, read_audio_fields
from routes.transcript import document, written


def transcript(*segments: dict[str, Any]) -> Transcript:
    text = "".join(segment["text"] for segment in segments)
    return Transcript("tiny", "transcribe", "en", 4.0, text, segments, None, None, 1.0, 2.0, 3.0)


SAID = transcript(
    {"text": " Hello --> there", "start": 0.0, "end": 1.5},
    {"text": "", "start": 1.5, "end": 1.5},
    {"text": " Bye", "start": 3661.0, "end": 3661.9996},
)


def test_subtitles_are_numbered_without_the_empty_ones() -> None:
    assert written(SAID, "srt").decode() == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello -> there\n\n2\n01:01:01,000 --> 01:01:02,000\nBye\n\n"
    )


def test_web_subtitles_have_points() -> None:
    assert "01:01:01.000 --> 01:01:02.000\nBye" in written(SAID, "vtt").decode()


def test_plain_text_is_all_there_is() -> None:
    assert written(SAID, "text") == b"Hello --> there Bye\n"


def test_only_the_verbose_answer_has_segments() -> None:
    assert "segments" not in document(SAID, "json")
    assert len(document(SAID, "verbose_json")["segments"]) == 3


def test_a_form_says_what_json_says() -> None:
    form = {
        "timestamp_granularities[]": ["word", "segment"],
        "vocabulary": ["Metal, Sotto"],
        "vad": ["true"],
        "vad_threshold": ["0.3"],
        "beam_size": ["5"],
        "condition_on_previous_text": ["False"],
        "language": [" auto "],
        "prompt": ["1"],
    }
    body = {
        "timestamp_granularities": ["word", "segment"],
        "vocabulary": ["Metal", "Sotto"],
        "vad": True,
        "vad_threshold": 0.3,
        "beam_size": 5,
        "condition_on_previous_text": False,
        "prompt": "1",
    }
    found = read_audio_fields(body_of_form(form))
    assert found == read_audio_fields(body)
    assert found.options.word_timestamps and found.options.temperatures == LADDER
    assert found.voice is not None and found.voice.threshold == 0.3


def test_one_temperature_is_no_ladder() -> None:
    assert read_audio_fields({"temperature": 0}).options.temperatures == (0.0,)


@pytest.mark.parametrize("body", [{"vocabulary": [1]}, {"vad": "yes"}, {"prompt": "x" * 30_000}, {"audio_ctx": 0}])
def test_what_is_wrong_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(body))):
        read_audio_fields(body)
