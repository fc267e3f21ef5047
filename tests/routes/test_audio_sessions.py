"""Live transcription over HTTP, by the whole company in one process, with a Whisper model of random numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.support.company import Company, run_company
from tests.support.sound import Samples, clips, encoded, needs_speech, pcm16, tone, wav
from tests.support.waiting import wait_until
from tests.support.whisper import tiny_whisper

URL = "/v1/audio/sessions"
RAW = {"content-type": "audio/pcm;rate=16000"}
PATIENCE_S = 120.0
MOST = 4
GREEDY: dict[str, Any] = {"temperature": 0}
UNKNOWN = "asess-company." + "0" * 32


@pytest.fixture(scope="module")
def company(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    whisper = tiny_whisper(tmp_path_factory.mktemp("whisper"))
    arguments: dict[str, Any] = {
        "model": str(tiny("llama")),
        "transcription": {"model": str(whisper.path)},
        "audio_sessions": {"max_sessions": MOST, "max_s": 200.0},
    }
    with run_company(arguments) as running:
        yield running


@pytest.fixture
def http(company: Company) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=company.url, timeout=PATIENCE_S) as client:
        yield client


def begin(http: httpx.Client, **fields: Any) -> str:
    answer = http.post(URL, json={**GREEDY, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def append(http: httpx.Client, name: str, samples: Samples) -> dict[str, Any]:
    answer = http.post(f"{URL}/{name}/audio", content=samples.astype("<f4").tobytes(), headers=RAW)
    assert answer.status_code == 200, answer.text
    return answer.json()


def finish(http: httpx.Client, name: str) -> dict[str, Any]:
    answer = http.post(f"{URL}/{name}/finish")
    assert answer.status_code == 200, answer.text
    return answer.json()


def discard(http: httpx.Client, name: str) -> None:
    assert http.delete(f"{URL}/{name}").status_code == 204


def at_once(http: httpx.Client, samples: Samples, **fields: Any) -> dict[str, Any]:
    """The same audio in one request, to the same precision."""
    form = {name: str(value).lower() for name, value in {**GREEDY, **fields}.items()}
    answer = http.post("/v1/audio/transcriptions", files={"file": ("a.wav", wav32(samples))}, data=form)
    assert answer.status_code == 200, answer.text
    return answer.json()


def wav32(samples: Samples) -> bytes:
    return wav(samples.astype("<f4").tobytes(), kind=3, bits=32)


def message(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return answer.json()["error"]["message"]


def plain(segment: dict[str, Any]) -> tuple[Any, ...]:
    """What has to be equal; probabilities depend on how the audio was cut in their last digits."""
    return segment["seek"], segment["start"], segment["end"], tuple(segment["tokens"])


def cut(samples: Samples, seed: int) -> Sequence[Samples]:
    rng = np.random.default_rng(seed)
    return np.split(samples, np.sort(rng.integers(0, len(samples), 12)))


def noise(seconds: float) -> Samples:
    """Louder and quieter sound: nothing of it is near the floor of a spectrogram."""
    rng = np.random.default_rng(1)
    return (0.1 * rng.standard_normal(round(seconds * 16_000))).astype(np.float32)


def test_a_session_says_what_one_request_says(http: httpx.Client) -> None:
    samples = noise(70)
    name = begin(http, response_format="verbose_json")
    receipt = [append(http, name, piece) for piece in cut(samples, 1)][-1]
    assert receipt["samples"] == len(samples)
    assert receipt["duration"] == pytest.approx(70)
    assert receipt["speech"] is None
    body = finish(http, name)
    whole = at_once(http, samples, response_format="verbose_json")
    assert body["text"] == whole["text"]
    assert [plain(segment) for segment in body["segments"]] == [plain(segment) for segment in whole["segments"]]
    assert set(body) == set(whole)


def test_windows_are_transcribed_before_the_end(http: httpx.Client) -> None:
    name = begin(http)
    append(http, name, noise(35))
    wait_until(lambda: append(http, name, noise(0))["segments"], "a window is transcribed")
    discard(http, name)


@needs_speech
@pytest.mark.parametrize("trim", [False, True])
def test_the_voice_gate_of_a_session_is_that_of_one_request(http: httpx.Client, trim: bool) -> None:
    silence = np.zeros(32_000, dtype=np.float32)
    samples = np.concatenate([silence, clips()[0], silence, clips()[1], silence])
    fields: dict[str, Any] = {"vad": True, "vad_trim": trim, "response_format": "verbose_json"}
    name = begin(http, **fields)
    heard = [append(http, name, piece)["speech"] for piece in cut(samples, 3)]
    assert (heard[0], heard[-1]) == (False, True)
    body, whole = finish(http, name), at_once(http, samples, **fields)
    assert body["text"] == whole["text"]
    assert body["mlx_bun"]["vad"] == whole["mlx_bun"]["vad"]
    assert [plain(segment) for segment in body["segments"]] == [plain(segment) for segment in whole["segments"]]


def test_a_session_without_speech_ends_without_whisper(http: httpx.Client) -> None:
    before = http.get("/stats").json()["troupe"]["transcriber"]["windows"]
    name = begin(http, vad=True)
    append(http, name, np.zeros(40 * 16_000, dtype=np.float32))
    body = finish(http, name)
    assert body["text"] == ""
    assert body["mlx_bun"]["vad"] == {"speech": False, "segments": []}
    assert http.get("/stats").json()["troupe"]["transcriber"]["windows"] == before


def test_chunks_may_be_files_of_any_kind(http: httpx.Client) -> None:
    name = begin(http)
    for data, kind in [(pcm16(tone(1.0)), "audio/wav"), (encoded(tone(1.0), "flac", "flac"), "audio/flac")]:
        answer = http.post(f"{URL}/{name}/audio", content=data, headers={"content-type": kind})
        assert answer.status_code == 200, answer.text
    assert answer.json()["samples"] == 32_000
    discard(http, name)


def test_the_vocabulary_is_reported_at_the_beginning_and_the_end(http: httpx.Client) -> None:
    answer = http.post(URL, json={"vocabulary": ["Metal", "x " * 400], **GREEDY}).json()
    assert set(answer) == {"id", "model", "vocabulary"}
    assert answer["vocabulary"]["included"] == ["Metal"]
    append(http, answer["id"], noise(1))
    assert finish(http, answer["id"])["mlx_bun"]["vocabulary"] == answer["vocabulary"]


def test_partial_text_comes_when_it_is_asked_for(http: httpx.Client) -> None:
    name = begin(http, partials=True)
    append(http, name, noise(3))
    wait_until(lambda: "partial" in append(http, name, noise(0)), "there is partial text")
    discard(http, name)


def test_a_session_that_is_over_or_unknown_is_told_apart(http: httpx.Client) -> None:
    name = begin(http)
    append(http, name, noise(1))
    finish(http, name)
    for path, content in (("audio", b""), ("finish", b"")):
        assert "finished" in message(http.post(f"{URL}/{name}/{path}", content=content, headers=RAW), 409)
        assert "no such session" in message(http.post(f"{URL}/{UNKNOWN}/{path}", content=content, headers=RAW), 404)
    gone = begin(http)
    discard(http, gone)
    assert http.delete(f"{URL}/{gone}").status_code == 404


@pytest.mark.parametrize("name", ["nobody", "..%2F..%2Fetc", "asess-company.xyz", "%00"])
def test_a_name_that_is_none_is_unknown(http: httpx.Client, name: str) -> None:
    assert http.post(f"{URL}/{name}/finish").status_code == 404


def test_a_session_too_many_is_refused(http: httpx.Client) -> None:
    names = [begin(http) for _ in range(MOST)]
    answer = http.post(URL, json=GREEDY)
    assert "no more are allowed" in message(answer, 429)
    for name in names:
        discard(http, name)
    discard(http, begin(http))


def test_a_bad_chunk_is_refused_and_the_session_goes_on(http: httpx.Client) -> None:
    name = begin(http)
    path = f"{URL}/{name}/audio"
    infinite = np.array([np.inf], dtype="<f4").tobytes()
    assert "multiple of 4" in message(http.post(path, content=b"abc", headers=RAW), 400)
    assert "no numbers" in message(http.post(path, content=infinite, headers=RAW), 400)
    assert http.post(path, content=b"junk", headers={"content-type": "audio/mpeg"}).status_code == 400
    for wrong in ("rate=8000", "rate=8000;rate=16000", "rate=16000;rate=8000", 'rate="8000"', "channels=2"):
        assert "16000" in message(http.post(path, content=b"", headers={"content-type": f"audio/pcm;{wrong}"}), 400)
    for right in ("rate=16000", 'rate="16000"; channels=1', "codecs=float"):
        assert http.post(path, content=b"", headers={"content-type": f"audio/pcm;{right}"}).status_code == 200
    assert http.post(path, json={}).status_code == 415
    long = np.zeros(16_000 * 100, dtype=np.float32)
    append(http, name, long)
    append(http, name, long)
    assert "200 s" in message(http.post(path, content=bytes(4), headers=RAW), 400)
    assert append(http, name, noise(0))["samples"] == 2 * len(long)
    discard(http, name)


@pytest.mark.parametrize(
    "fields",
    [{"response_format": "srt"}, {"stream": True}, {"temperature": 2}, {"partials": "yes"}, {"language": "de"}],
)
def test_what_a_session_cannot_do_is_refused(http: httpx.Client, fields: dict[str, Any]) -> None:
    assert http.post(URL, json=fields).status_code == 400


def socket(company: Company, name: str) -> ClientConnection:
    return connect(f"{company.url.replace('http', 'ws')}{URL}/{name}/stream", open_timeout=PATIENCE_S)


def events_until(connection: ClientConnection, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while not found or found[-1]["type"] != kind:
        found.append(json.loads(connection.recv(timeout=PATIENCE_S)))
    return found


def test_a_websocket_takes_chunks_and_tells_what_is_new(company: Company, http: httpx.Client) -> None:
    samples = noise(35)
    name = begin(http, response_format="verbose_json", partials=True)
    with socket(company, name) as connection:
        for piece in np.split(samples, 7):
            connection.send(piece.astype("<f4").tobytes())
            events_until(connection, "receipt")
        segments = [event["segment"] for event in events_until(connection, "segment") if event["type"] == "segment"]
        connection.send(json.dumps({"type": "finish"}))
        events = events_until(connection, "done")
        with pytest.raises(ConnectionClosed):
            connection.recv(timeout=PATIENCE_S)
    segments += [event["segment"] for event in events if event["type"] == "segment"]
    done = events[-1]
    assert segments == done["segments"]
    assert done["text"] == at_once(http, samples)["text"]
    assert http.post(f"{URL}/{name}/finish").status_code == 409


def test_a_websocket_that_is_closed_leaves_its_session_open(company: Company, http: httpx.Client) -> None:
    name = begin(http)
    with socket(company, name) as connection:
        connection.send(noise(1).astype("<f4").tobytes())
        events_until(connection, "receipt")
    with socket(company, name) as connection:
        connection.send(b"abc")
        (refused,) = events_until(connection, "error")
        assert "multiple of 4" in refused["error"]["message"]
        connection.send("hello")
        (refused,) = events_until(connection, "error")
        connection.send(noise(1).astype("<f4").tobytes())
        assert events_until(connection, "receipt")[-1]["samples"] == 32_000
    discard(http, name)


@pytest.mark.parametrize("ending", ["finish", "discard"])
def test_a_websocket_is_told_when_its_session_ends_elsewhere(company: Company, http: httpx.Client, ending: str) -> None:
    name = begin(http)
    with socket(company, name) as connection:
        connection.send(noise(1).astype("<f4").tobytes())
        events_until(connection, "receipt")
        if ending == "finish":
            assert http.post(f"{URL}/{name}/finish").status_code == 200
        else:
            discard(http, name)
        told = events_until(connection, "error")[-1]["error"]["message"]
        assert told == ("the session is finished" if ending == "finish" else "there is no such session")
        with pytest.raises(ConnectionClosed):
            connection.recv(timeout=PATIENCE_S)


def test_the_websocket_of_an_unknown_session_does_not_open(company: Company) -> None:
    with pytest.raises(InvalidStatus) as refused, socket(company, UNKNOWN):
        pass
    assert refused.value.response.status_code == 404


def test_a_session_that_nobody_uses_expires(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    whisper = tiny_whisper(tmp_path)
    arguments: dict[str, Any] = {
        "model": str(tiny("llama")),
        "transcription": {"model": str(whisper.path)},
        "audio_sessions": {"idle_s": 0.5, "spool_dir": str(tmp_path / "sessions")},
    }
    with run_company(arguments) as company, httpx.Client(base_url=company.url, timeout=PATIENCE_S) as http:
        name = begin(http)
        spool = tmp_path / "sessions" / name
        wait_until(lambda: not spool.exists(), "the session goes")
        for path in ("audio", "finish"):
            answer = http.post(f"{URL}/{name}/{path}", content=b"", headers=RAW)
            assert "idle for more than 0.5 s" in message(answer, 410)
