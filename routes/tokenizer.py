"""The tokenizer and chat template of the served model, without MLX and without torch."""

from __future__ import annotations

import os
import sys
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.errors import InvalidRequest, StartError
from actors.prompt_cache.messages import TokenBytes
from routes.detokenize import Detokenizer
from routes.schema.messages import Message

_DEPTHS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}


class ChatTokenizer:
    """Renders, encodes and decodes. Every method may be called from any thread."""

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer` is a Hugging Face tokenizer; it belongs to this object from now on."""
        self._tokenizer = tokenizer
        self._template_text = _template_text(tokenizer)
        self._special = frozenset(int(token) for token in tokenizer.all_special_ids)
        self._encode, self._decode = _codec(tokenizer)

    @classmethod
    def load(cls, path: Path) -> ChatTokenizer:
        """The tokenizer of a checkpoint folder. Reads files, never the network.

        Raises:
            StartError: the folder holds no usable tokenizer.
        """
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # torch is not missed here
        from transformers import AutoTokenizer  # a second of imports that a `--help` should not pay

        try:
            return cls(AutoTokenizer.from_pretrained(str(path), local_files_only=True, trust_remote_code=False))
        except Exception as error:  # third-party code: it fails in many ways, all of which mean the same here
            raise StartError(f"cannot load the tokenizer in {path}: {_one_line(error)}") from error

    @property
    def thinking(self) -> bool:
        """Whether the chat template has a switch for thinking."""
        return "enable_thinking" in self._template_text

    def render(
        self, messages: Sequence[Message], variables: Mapping[str, object], effort: str | None = None
    ) -> list[int]:
        """Token ids of a conversation, ready for the assistant's turn. Blocks for milliseconds.

        Raises:
            InvalidRequest: the template is missing, refuses the messages, or fails on them.
        """
        return self._encode(self.render_text(messages, variables, effort), False)

    def render_text(
        self, messages: Sequence[Message], variables: Mapping[str, object], effort: str | None = None
    ) -> str:
        """The text that `render` encodes. Raises the same."""
        if not self._template_text:
            raise InvalidRequest("prompt build failed: the model has no chat template")
        try:
            text = self._tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=True,
                **{**self._depth(effort), **variables},
            )
        except Exception as error:  # whatever a template raises on somebody's messages is the request's fault
            raise InvalidRequest(f"prompt build failed: {_one_line(error)}") from error
        return str(text)

    def encode(self, text: str) -> list[int]:
        """Token ids of raw text, with the beginning-of-text token where the tokenizer adds one."""
        return self._encode(text, True)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids, special tokens included."""
        return self._decode(tokens)

    def detokenizer(self) -> Detokenizer:
        """A fresh detokenizer for one row; special tokens have no text in it."""
        return Detokenizer(self._decode, self._special)

    def _depth(self, effort: str | None) -> dict[str, str]:
        """Only templates that read `reasoning_effort` get it, in the words they know."""
        if effort not in _DEPTHS or "reasoning_effort" not in self._template_text:
            return {}
        depth = _DEPTHS[effort]
        return {"reasoning_effort": "xhigh" if depth == "high" and "xhigh" in self._template_text else depth}


def pack_tokens(tokens: Sequence[int]) -> TokenBytes:
    """Token ids as they travel: 4 bytes each, little-endian."""
    packed = array("I", tokens)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _codec(tokenizer: Any) -> tuple[Callable[[str, bool], list[int]], Callable[[Sequence[int]], str]]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # The Rust object may be shared between threads as long as nobody changes it, which the wrapper's own methods
        # do on each call (truncation, padding). So it is set once and used directly.
        backend.no_truncation()
        backend.no_padding()
        return (
            lambda text, special: backend.encode(text, add_special_tokens=special).ids,
            lambda tokens: backend.decode(tokens, skip_special_tokens=False),
        )
    lock = threading.Lock()

    def encode(text: str, special: bool) -> list[int]:
        with lock:
            return list(tokenizer.encode(text, add_special_tokens=special))

    def decode(tokens: Sequence[int]) -> str:
        with lock:
            return str(tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    return encode, decode


def _template_text(tokenizer: Any) -> str:
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, Mapping):
        return "\n".join(str(text) for text in template.values())
    return template or ""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
