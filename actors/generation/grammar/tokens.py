"""The served model's vocabulary as grammars see it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from xgrammar import TokenizerInfo

WHITESPACE = b" \t\r\n"
WORD_BITS = 32


class Tokens:
    """Token ids and their bytes. Immutable; may be shared between threads.

    Args:
        info: xgrammar's own record of the vocabulary.
        special: ids by text of tokens that a grammar never allows.
    """

    def __init__(self, info: TokenizerInfo, special: dict[str, int]) -> None:
        self.info = info
        self.special = special
        self.stops = frozenset(info.stop_token_ids)
        self.texts: list[bytes] = info.decoded_vocab
        """Bytes of each token; empty for special and padded ones."""
        self.size = info.vocab_size
        self.words = (self.size + WORD_BITS - 1) // WORD_BITS
        """32-bit words of a row's mask."""
        self.stop_mask = self.mask(self.stops)
        """Only the tokens that end an answer."""
        self.real_mask = self.mask(range(self.size))
        """All tokens; xgrammar sets the bits beyond them too."""
        self.ending_mask = self.mask([*self.stops, *self._whitespace()]) | ~self.real_mask
        """Tokens that end an answer, those of whitespace alone, and the bits beyond the vocabulary."""

    def mask(self, tokens: Iterable[int]) -> np.ndarray:
        """A row's mask that allows exactly these tokens. [words], int32"""
        bits = np.zeros(self.words * WORD_BITS, dtype=np.uint8)
        bits[list(tokens)] = 1
        return np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32).view(np.int32)

    @functools.cached_property
    def spellings(self) -> list[bytes]:
        """As `texts`, with the names of special tokens for theirs: what somebody who looks for marks reads."""
        spelled = list(self.texts)
        for text, token in self.special.items():
            spelled[token] = text.encode()
        return spelled

    def single(self, text: str) -> int | None:
        """The one token that is this text, special or not; None when it takes several."""
        if text in self.special:
            return self.special[text]
        wanted = text.encode()
        return next((token for token, piece in enumerate(self.texts) if piece == wanted), None)

    def _whitespace(self) -> list[int]:
        return [token for token, text in enumerate(self.texts) if text and not text.strip(WHITESPACE)]


def load(path: Path, vocabulary: int, stops: Iterable[int], markers: Sequence[str] = ()) -> Tokens:
    """The vocabulary of a checkpoint folder. Blocks for seconds (imports); reads files, never the network.

    Args:
        path: the folder.
        vocabulary: rows of the embedding matrix; ids from there on are ignored, ids the tokenizer lacks never allowed.
        stops: ids that end an answer.
        markers: special tokens that grammars may spell, such as those around a tool call. All others have no text
            for a client and are never allowed within a grammar.

    Raises:
        OSError, ValueError: no tokenizer there, or one that grammars cannot use.
    """
    from transformers import AutoTokenizer  # seconds of imports, with the next one

    tokenizer: Any = AutoTokenizer.from_pretrained(str(path), local_files_only=True, trust_remote_code=False)
    return of(tokenizer, vocabulary, stops, markers)


def of(tokenizer: Any, vocabulary: int, stops: Iterable[int], markers: Sequence[str] = ()) -> Tokens:
    """`load` for a Hugging Face tokenizer at hand. Raises `ValueError`."""
    from xgrammar import TokenizerInfo

    within = sorted(stop for stop in stops if 0 <= stop < vocabulary)
    if not within:
        raise ValueError("the model has no token that ends an answer")
    probe = TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocabulary, stop_token_ids=within)
    names = tokenizer.convert_ids_to_tokens(list(tokenizer.all_special_ids))
    special = {
        str(name): int(token)
        for name, token in zip(names, tokenizer.all_special_ids, strict=True)
        if name not in markers and token < vocabulary
    }
    pieces: list[str] = [""] * vocabulary
    silent = set(special.values()) | set(within)
    for piece, token in tokenizer.get_vocab().items():
        # An empty piece is xgrammar's sign of a token without text.
        if token < vocabulary and token not in silent:
            pieces[token] = piece
    info = TokenizerInfo(
        pieces,
        probe.vocab_type,
        vocab_size=vocabulary,
        stop_token_ids=within,
        add_prefix_space=probe.add_prefix_space,
    )
    return Tokens(info, special)
