"""Transcription over HTTP, by the whole company in one process, with a Whisper model of random numbers."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.company import Company, run_company
from tests.support.sound import clip_files, needs_speech, pcm16, tone
from tests.support.whisper import tiny_whisper

SOUND = pcm16(tone(1.0))
LIMIT = 200_000
GREEDY: dict[str, Any] = {"temperature": "0"}
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def company(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    whisper = tiny_whisper(tmp_path_factory.mktemp("whisper"))
    arguments: dict[str, Any] = {
        "model": str(tiny("llama")),
        "server": {"max_body_bytes": LIMIT},
        "transcription": {"model": str(whisper.path), "queue": 2, "max_duration_s": 5.0},
    }
    with run_company(arguments) as running:
        yield running


@pytest.fixture(scope="module")
def expected(company: Company) -> dict[str, Any]:
    """What the model makes of `SOUND`."""
    return post(company, response_format="verbose_json", **GREEDY).json()


def post(company: Company, route: str = "transcriptions", file: bytes = SOUND, **fields: Any) -> httpx.Response:
    url = f"{company.url}/v1/audio/{route}"
    return httpx.post(url, files={"file": ("sound.wav", file)}, data=fields, timeout=PATIENCE_S)


def statistics(company: Company) -> dict[str, Any]:
    return httpx.get(f"{company.url}/stats", timeout=PATIENCE_S).json()["troupe"]["transcriber"]


def message(response: httpx.Response, status: int = 400) -> str:
    assert response.status_code == status, response.text
    return response.json()["error"]["message"]


def test_a_verbose_answer_has_whispers_fields(expected: dict[str, Any]) -> None:
    assert (expected["task"], expected["language"], expected["duration"]) == ("transcribe", "en", 1.0)
    assert set(expected["segments"][0]) == {
        "id",
        "seek",
        "start",
        "end",
        "text",
        "tokens",
        "temperature",
        "avg_logprob",
        "compression_ratio",
        "no_speech_prob",
    }
    assert expected["mlx_bun"]["model"].startswith("whisper")
    assert set(expected["mlx_bun"]["timings"]) == {"load_ms", "transcribe_ms", "total_ms"}


def test_json_says_the_same_as_a_form(company: Company, expected: dict[str, Any]) -> None:
    audio = "data:audio/wav;base64," + base64.b64encode(SOUND).decode()
    body = {"input_audio": {"data": audio}, "temperature": 0, "vocabulary": ["Metal", "x " * 400]}
    answer = httpx.post(f"{company.url}/v1/audio/transcriptions", json=body, timeout=PATIENCE_S).json()
    assert answer["mlx_bun"]["vocabulary"]["included"] == ["Metal"]
    assert set(answer) == {"text", "mlx_bun"}
    assert answer["mlx_bun"]["timings"]["load_ms"] == 0


def test_an_official_client_uploads_and_streams(company: Company, expected: dict[str, Any]) -> None:
    with company.client() as client:
        whole = client.audio.transcriptions.create(file=("a.wav", SOUND), model="any", temperature=0)
        assert whole.text == expected["text"]
        events = list(
            client.audio.transcriptions.create(file=("a.wav", SOUND), model="any", temperature=0, stream=True)
        )
    assert [event.type for event in events][-2:] == ["transcript.progress", "transcript.text.done"]
    said = "".join(event.delta for event in events if event.type == "transcript.text.delta")
    assert said == expected["text"]
    assert events[-1].text == expected["text"]  # type: ignore[union-attr]


def test_streamed_events_count_frames(company: Company) -> None:
    text = post(company, stream="true", **GREEDY).text
    events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    assert [event for event in events if event["type"] == "transcript.progress"] == [
        {"type": "transcript.progress", "done": 100, "total": 100}
    ]
    assert set(events[0]["segment"]) == {"id", "start", "end"}


@pytest.mark.parametrize(
    ("wanted", "media", "start"),
    [("text", "text/plain", ""), ("srt", "application/x-subrip", "1\n00:00:0"), ("vtt", "text/vtt", "WEBVTT\n\n00:")],
)
def test_bare_formats_say_the_rest_in_headers(company: Company, wanted: str, media: str, start: str) -> None:
    answer = post(company, response_format=wanted, **GREEDY)
    assert answer.headers["content-type"].startswith(media)
    assert answer.text.startswith(start)
    assert answer.headers["x-mlx-bun-language"] == "en"
    assert "total_ms" in json.loads(answer.headers["x-mlx-bun-timings"])


def test_words_come_with_times(company: Company) -> None:
    fields: dict[str, Any] = {"timestamp_granularities[]": ["word", "segment"], "response_format": "verbose_json"}
    answer = post(company, **fields, **GREEDY).json()
    words = [word for segment in answer["segments"] for word in segment["words"]]
    assert words and answer["words"] == words
    assert set(words[0]) == {"word", "start", "end", "probability"}


def test_silence_is_answered_without_whisper(company: Company) -> None:
    httpx.post(f"{company.url}/admin/transcription/unload", timeout=PATIENCE_S)
    before = statistics(company)["loads"]
    answer = post(company, file=pcm16(np.zeros(48_000, np.float32)), vad="true").json()
    assert (answer["text"], answer["mlx_bun"]["vad"]) == ("", {"speech": False, "segments": []})
    assert statistics(company)["loads"] == before


@needs_speech
def test_speech_is_found_and_trimmed(company: Company) -> None:
    file = clip_files()[1].read_bytes()
    fields: dict[str, Any] = {"vad": "true", "vad_trim": "true", "response_format": "verbose_json"}
    answer = post(company, file=file, **fields, **GREEDY).json()
    assert answer["mlx_bun"]["vad"]["speech"] is True
    (span,) = answer["mlx_bun"]["vad"]["segments"]
    assert 0 <= span["start"] < span["end"] <= answer["duration"]


def test_weights_are_paged_out_on_demand(company: Company) -> None:
    post(company, **GREEDY)
    answer = httpx.post(f"{company.url}/admin/transcription/unload", timeout=PATIENCE_S).json()
    assert answer.pop("unloaded") is True
    assert answer == httpx.get(f"{company.url}/stats", timeout=PATIENCE_S).json()["transcription"]
    assert (answer["resident"], answer["idle_unload_sec"]) == (False, 60.0)
    assert httpx.post(f"{company.url}/admin/transcription/unload", timeout=PATIENCE_S).json()["unloaded"] is False


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"response_format": "docx"}, "response_format must be one of"),
        ({"temperature": "2"}, "temperature must be"),
        ({"temperature": "warm"}, "temperature must be of type float"),
        ({"beam_size": "3", "temperature": "0.5"}, "beam_size goes with temperature 0"),
        ({"beam_size": "99"}, "beam_size must be"),
        ({"stream": "maybe"}, "stream must be of type bool"),
        ({"stream": "true", "response_format": "srt"}, "cannot be streamed"),
        ({"language": "klingon"}, "not one that Whisper knows"),
        ({"language": "German"}, "knows English only"),
        ({"timestamp_granularities[]": "syllable"}, "timestamp_granularities"),
        ({"timestamp_granularities[]": "word", "without_timestamps": "true"}, "do not go together"),
        ({"include[]": "logprobs"}, "include is not served here"),
    ],
)
def test_a_wrong_field_is_named(company: Company, fields: dict[str, Any], words: str) -> None:
    answer = post(company, **fields)
    assert words in message(answer)
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (b"", "cannot be decoded"),
        (b"no audio at all" * 9, "cannot be decoded"),
        (pcm16(tone(0.05)), "at least 0.1 s"),
        (pcm16(tone(6.0)), "at most 5 s"),
    ],
)
def test_what_is_no_audio_is_the_clients_fault(company: Company, file: bytes, words: str) -> None:
    assert words in message(post(company, file=file))


def test_an_english_model_does_not_translate(company: Company) -> None:
    assert "knows English only" in message(post(company, "translations"))


def test_a_body_of_another_kind_is_refused(company: Company) -> None:
    url = f"{company.url}/v1/audio/transcriptions"
    assert "multipart/form-data" in message(httpx.post(url, content=SOUND, headers={"content-type": "audio/wav"}), 415)
    assert "base64" in message(httpx.post(url, json={"file": "§§§"}))
    assert "file must" in message(httpx.post(url, json={}))
    assert "file must" in message(httpx.post(url, data={"x": "y"}, files={"other": b"z"}))
    broken = {"content-type": "multipart/form-data"}
    assert "form cannot be read" in message(httpx.post(url, content=b"x", headers=broken))
    cut = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nRIFF'
    headers = {"content-type": "multipart/form-data; boundary=b"}
    assert "cut short" in message(httpx.post(url, content=cut, headers=headers))


def test_an_upload_over_the_limit_is_refused(company: Company) -> None:
    assert str(LIMIT) in message(post(company, file=bytes(LIMIT + 1000)), 413)


async def test_a_client_that_leaves_frees_the_engine(company: Company) -> None:
    before = statistics(company)["cancelled_requests"]
    async with httpx.AsyncClient() as client:
        url = f"{company.url}/v1/audio/transcriptions"
        asking = asyncio.create_task(client.post(url, files={"file": SOUND}, timeout=PATIENCE_S))
        await until(lambda: statistics(company)["open_requests"] == 1)
        asking.cancel()
        await until(lambda: statistics(company)["cancelled_requests"] == before + 1)
    await until(lambda: statistics(company)["open_requests"] == 0)
    assert post(company, **GREEDY).status_code == 200


async def test_more_than_the_line_holds_is_refused(company: Company) -> None:
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        url = f"{company.url}/v1/audio/transcriptions"
        asking = [asyncio.create_task(client.post(url, files={"file": SOUND}, data=GREEDY)) for _ in range(3)]
        answers = await asyncio.gather(*asking)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 429]


async def until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < ends
        await asyncio.sleep(0.02)


def test_a_speech_model_can_be_all_that_is_served(tmp_path: Path) -> None:
    whisper = tiny_whisper(tmp_path)
    with run_company({"model": str(whisper.path)}) as company:
        health = httpx.get(f"{company.url}/health", timeout=PATIENCE_S).json()
        assert (health["status"], health["transcription"]["resident"]) == ("ok", True)
        (row,) = httpx.get(f"{company.url}/v1/models", timeout=PATIENCE_S).json()["data"]
        assert row["capabilities"]["transcription"] is True
        assert post(company, **GREEDY).status_code == 200
        chat = {"messages": [{"role": "user", "content": "hi"}]}
        refused = httpx.post(f"{company.url}/v1/chat/completions", json=chat, timeout=PATIENCE_S)
        assert "is a speech model" in message(refused)
