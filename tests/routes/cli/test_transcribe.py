"""`troupe transcribe`, on a model of random numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from routes.cli.main import main
from tests.support.sound import pcm16, tone
from tests.support.whisper import tiny_whisper


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_whisper(tmp_path_factory.mktemp("whisper")).path)


@pytest.fixture
def sound(tmp_path: Path) -> str:
    path = tmp_path / "talk.wav"
    path.write_bytes(pcm16(tone(0.5)))
    return str(path)


def test_a_file_is_written_down(model: str, sound: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", model, "--temperature", "0", "--format", "verbose_json", "--words"]
    assert main(["transcribe", *options, sound]) == 0
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert (answer["task"], answer["duration"]) == ("transcribe", 0.5)
    assert answer["words"]
    assert "talk.wav: 0 of 0 s" in said.err


def test_a_file_that_is_no_audio_fails_alone(
    model: str, sound: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.mp3"
    bad.write_bytes(b"nothing")
    options = ["--model", model, "-q", "--temperature", "0", "--format", "srt", "--output-dir", str(tmp_path / "out")]
    assert main(["transcribe", *options, str(bad), sound, str(tmp_path / "none.wav")]) == 1
    assert (tmp_path / "out" / "talk.srt").read_text().startswith("1\n00:00:00")
    errors = capsys.readouterr().err
    assert "bad.mp3: the audio cannot be decoded" in errors
    assert "none.wav: No such file" in errors


def test_a_wrong_option_is_one_sentence(model: str, sound: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transcribe", "--model", model, "--beam-size", "3", "--temperature", "0.4", sound]) == 1
    assert capsys.readouterr().err == "troupe: beam_size goes with temperature 0\n"
