"""The tokenizer of an embedding model, without MLX and without torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.errors import InvalidRequest, StartError
from routes.schema.embeddings import Cut
from routes.tokenizer import encoded, load_hugging_face


class EmbeddingTokenizer:
    """From text to the tokens that a model reads. Every method may be called from any thread.

    Args:
        backend: a `tokenizers.Tokenizer`; it belongs to this object from now on.
        limit: tokens of a text, special ones included.
    """

    def __init__(self, backend: Any, limit: int) -> None:
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self._limit = limit
        self._special = backend.num_special_tokens_to_add(False)

    @classmethod
    def load(cls, path: Path, limit: int) -> EmbeddingTokenizer:
        """The tokenizer of a checkpoint folder. Reads files, never the network.

        Raises:
            StartError: the folder holds no usable tokenizer.
        """
        backend = getattr(load_hugging_face(path), "backend_tokenizer", None)
        if backend is None:
            raise StartError(f"the tokenizer in {path} has no fast form (tokenizer.json), which embeddings need")
        return cls(backend, limit)

    def encode(self, text: str, cut: Cut, where: str) -> list[int]:
        """Token ids of a text, with the special tokens that the model wants around it.

        A text that is cut keeps its special tokens. `where` names the text in errors.

        Raises:
            InvalidRequest: it has no tokens, or more than the model reads and is not to be cut.
        """
        encoding = encoded(self._backend, text, special=True)
        if len(encoding) > self._limit:
            self._check(len(encoding), cut, where)
            encoding = encoded(self._backend, text, special=False)
            direction = "right" if cut == "end" else "left"
            encoding.truncate(max(1, self._limit - self._special), direction=direction)
            encoding = self._backend.post_process(encoding, add_special_tokens=True)
        if not encoding.ids:
            raise InvalidRequest(f"{where} has no tokens")
        return list(encoding.ids)

    def fit(self, tokens: Sequence[int], cut: Cut, where: str) -> Sequence[int]:
        """Token ids that a client gave, taken as they are and cut where that is wanted. Raises as `encode`."""
        if len(tokens) <= self._limit:
            return tokens
        self._check(len(tokens), cut, where)
        return tokens[: self._limit] if cut == "end" else tokens[-self._limit :]

    def _check(self, length: int, cut: Cut, where: str) -> None:
        if cut == "none":
            raise InvalidRequest(
                f"{where} has {length} tokens, where the model reads {self._limit}; set truncate to have it cut"
            )
