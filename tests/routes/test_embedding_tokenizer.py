"""From text to the tokens an embedding model reads."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from actors.errors import InvalidRequest, StartError
from routes.embedding_tokenizer import EmbeddingTokenizer
from tests.support import embedders


def letters(limit: int) -> EmbeddingTokenizer:
    """a to e are 0 to 4; 5 goes in front and 6 behind."""
    backend: Any = Tokenizer(models.WordLevel({letter: index for index, letter in enumerate("abcde[]")}))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.post_processor = processors.TemplateProcessing(single="[ $A ]", special_tokens=[("[", 5), ("]", 6)])
    backend.enable_padding(length=50)
    backend.enable_truncation(2)
    return EmbeddingTokenizer(backend, limit)


def test_a_text_gets_its_special_tokens_and_no_padding() -> None:
    assert letters(10).encode("abc", "none", "input[0]") == [5, 0, 1, 2, 6]


def test_a_text_of_just_the_limit_is_not_cut() -> None:
    assert letters(5).encode("abc", "none", "input[0]") == [5, 0, 1, 2, 6]


def test_a_text_that_is_too_long_is_refused_with_the_limit() -> None:
    with pytest.raises(InvalidRequest, match=r"input\[3\] has 7 tokens, where the model reads 5; set truncate"):
        letters(5).encode("abcde", "none", "input[3]")


def test_what_is_cut_keeps_its_special_tokens() -> None:
    assert letters(5).encode("abcde", "end", "") == [5, 0, 1, 2, 6]
    assert letters(5).encode("abcde", "start", "") == [5, 2, 3, 4, 6]


def test_token_ids_are_taken_as_they_are_or_cut() -> None:
    tokenizer = letters(3)
    assert tokenizer.fit([1, 2, 3], "none", "") == [1, 2, 3]
    assert tokenizer.fit([1, 2, 3, 4], "end", "") == [1, 2, 3]
    assert tokenizer.fit([1, 2, 3, 4], "start", "") == [2, 3, 4]
    with pytest.raises(InvalidRequest, match="input has 4 tokens"):
        tokenizer.fit([1, 2, 3, 4], "none", "input")


def test_a_text_without_any_token_is_refused() -> None:
    backend: Any = Tokenizer(models.WordLevel({"a": 0}))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(InvalidRequest, match=r"input\[0\] has no tokens"):
        EmbeddingTokenizer(backend, 5).encode("  ", "none", "input[0]")


def test_the_real_one_reads_as_its_model_was_taught() -> None:
    tokenizer = EmbeddingTokenizer.load(embedders.minilm(), 256)
    assert tokenizer.encode("Hello, world!", "none", "") == [101, 7592, 1010, 2088, 999, 102]
    assert len(tokenizer.encode("word " * 1000, "end", "")) == 256


def test_a_folder_without_a_tokenizer_ends_the_start(tmp_path: Any) -> None:
    with pytest.raises(StartError, match="cannot load the tokenizer"):
        EmbeddingTokenizer.load(tmp_path, 5)
