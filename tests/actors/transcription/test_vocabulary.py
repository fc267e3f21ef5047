"""What people write before the audio, as Whisper's tokens."""

from __future__ import annotations

from typing import Any

import pytest
from mlx_whisper.tokenizer import get_tokenizer

from actors.transcription.vocabulary import opening, plainly


@pytest.mark.parametrize("text", ["<|endoftext|>", "a <|nospeech|> b", "<|0.00|>", "<|startoftranscript|>"])
def test_names_of_special_tokens_are_text(text: str) -> None:
    tokenizer: Any = get_tokenizer(multilingual=False)
    tokens, report = opening(text, [text], plainly(tokenizer), 223)
    assert report is not None and report.included == (text,)
    assert all(token < tokenizer.eot for token in tokens)
    assert tokenizer.encoding.decode(tokens) == f" {text} {text}"
