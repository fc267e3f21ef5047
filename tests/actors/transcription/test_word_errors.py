"""How many words of human speech are wrong, beside mlx-whisper on the same weights."""

from __future__ import annotations

import importlib
import re
from typing import Any

import jiwer
import pytest

from actors.transcription.clip import Clip
from actors.transcription.options import TranscriptionOptions
from tests.support.sound import clips, needs_speech, transcripts
from tests.support.whisper import real_whisper


def plain(text: str) -> str:
    """Words in small letters."""
    return " ".join(re.findall(r"[a-z']+", text.lower()))


@needs_speech
def test_no_more_words_are_wrong_than_mlx_whisper_gets_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    transcribe = importlib.import_module("mlx_whisper.transcribe")
    decoder = real_whisper()
    monkeypatch.setattr(transcribe.ModelHolder, "model", decoder.model)
    monkeypatch.setattr(transcribe.ModelHolder, "model_path", "here")
    ours: list[str] = []
    theirs: list[str] = []
    for samples in clips():
        clip = Clip(80, TranscriptionOptions())
        clip.feed(samples)
        clip.finish()
        while clip.waiting:
            clip.advance(decoder, lambda: True)
        ours.append(plain(clip.text))
        peer: Any = transcribe.transcribe(samples, path_or_hf_repo="here", fp16=False)
        theirs.append(plain(peer["text"]))
    said = transcripts()
    print(f"word errors: ours {jiwer.wer(said, ours):.3f}, mlx-whisper {jiwer.wer(said, theirs):.3f}")
    assert jiwer.wer(said, ours) <= jiwer.wer(said, theirs) + 0.01
    assert jiwer.wer(said, ours) < 0.2
