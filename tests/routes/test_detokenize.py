from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from routes.detokenize import Detokenizer
from tests.routes.harness import END, byte_tokenizer

tokenizer = byte_tokenizer()
HARD = ["héllo", "日本語のテキスト", "👨‍👩‍👧 family", "e\u0301 n\u0303", " leading", "tabs\t\n", "🇫🇷🏳️‍🌈", "नमस्ते"]


def streamed(tokens: Sequence[int], decode: Callable[[Sequence[int]], str] = tokenizer.decode) -> list[str]:
    detokenizer = Detokenizer(decode)
    return [*[detokenizer.feed(token) for token in tokens], detokenizer.flush()]


@given(st.text(max_size=40))
def test_text_survives_byte_by_byte(text: str) -> None:
    text = text.replace("\ufffd", "?")
    assert "".join(streamed(tokenizer.encode(text))) == text


@pytest.mark.parametrize("text", HARD)
def test_no_piece_holds_half_a_character(text: str) -> None:
    pieces = streamed(tokenizer.encode(text))
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


@given(st.lists(st.integers(0, 255), max_size=60))
def test_broken_bytes_read_as_they_would_in_one_piece(tokens: list[int]) -> None:
    assert "".join(streamed(tokens)) == tokenizer.decode(tokens)


def test_a_character_comes_with_its_last_byte() -> None:
    assert streamed(tokenizer.encode("é!")) == ["", "é", "!", ""]


def test_an_unfinished_character_at_the_end_is_shown_as_broken() -> None:
    pieces = streamed(tokenizer.encode("a😀")[:-1])
    assert pieces == ["a", "", "", "", "\ufffd"]


def test_broken_bytes_do_not_hold_the_stream_back_for_ever() -> None:
    (continuation,) = {token for token in range(256) if tokenizer.decode([token]) == "\ufffd"} & {
        tokenizer.encode("é")[1]
    }
    pieces = streamed([continuation] * 100)
    assert any(pieces[:-1])
    assert "".join(pieces) == "\ufffd" * 100


def test_special_tokens_have_no_text_and_break_no_word() -> None:
    detokenizer = tokenizer.detokenizer()
    tokens = [*tokenizer.encode("a "), END, *tokenizer.encode("b")]
    assert "".join(detokenizer.feed(token) for token in tokens) == "a b"


def metaspace() -> Tokenizer:
    """Words with a leading mark, bytes as a last resort, and a space that is dropped at the very start."""
    words = ["<unk>", "▁Hello", "▁world", "▁", "!", *[f"<0x{byte:02X}>" for byte in range(256)]]
    backend = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[], byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence(steps)
    return backend


def ids(backend: Tokenizer, *words: str) -> list[int]:
    return [token for word in words if (token := backend.token_to_id(word)) is not None]


def test_leading_spaces_are_dropped_only_at_the_start() -> None:
    backend = metaspace()
    words = ids(backend, "▁Hello", "▁world", "!", "▁Hello")
    assert streamed(words, backend.decode) == ["Hello", " world", "!", " Hello", ""]


@given(st.text(alphabet="é日😀a", max_size=20))
def test_byte_fallback_gives_whole_characters(text: str) -> None:
    backend = metaspace()
    tokens = ids(backend, "▁Hello", *[f"<0x{byte:02X}>" for byte in text.encode()])
    pieces = streamed(tokens, backend.decode)
    assert "".join(pieces) == "Hello" + text
    assert not any("\ufffd" in piece for piece in pieces)
