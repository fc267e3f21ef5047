"""The tokenizer and chat template of the served model, without MLX and without torch."""

from __future__ import annotations

import os
import sys
import threading
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from actors.errors import InvalidRequest, StartError
from actors.prompt_cache.messages import TokenBytes
from routes.agreement import agreeing, continuations, whole_tokens
from routes.detokenize import Detokenizer
from routes.roles import attempts
from routes.schema.messages import Message

_DEPTHS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}
_DIRECT = (("[gMASK]<sop>", "Reasoning Effort:"), ("<function name=", "<param name="))
"""What the templates of GLM-5.2 and of MiniCPM5 hold beside a switch for thinking, and no other family's do.

These answer directly unless a request asks for thinking, whatever the template itself would do.
"""
_TAIL = 400


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as the model reads it."""

    tokens: list[int]
    """Its token ids."""
    tail: str
    """The last characters of its text, enough to see what the assistant's turn begins with."""
    thinks: bool
    """False when the model can think and its template was told not to."""
    boundaries: tuple[int, ...] = ()
    """Numbers of its first tokens, ascending, that later prompts will have too (`routes/agreement.py`)."""


class ChatTokenizer:
    """Renders, encodes and decodes. Every method may be called from any thread."""

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer` is a Hugging Face tokenizer; it belongs to this object from now on."""
        self._tokenizer = tokenizer
        self._template_text = _template_text(tokenizer)
        self._added = {str(text): int(token) for text, token in tokenizer.get_added_vocab().items()}
        self._special = _special(tokenizer)
        self._tokens = frozenset(self._added) | frozenset(self._special.values())
        self._direct = self.thinking and any(all(sign in self._template_text for sign in signs) for signs in _DIRECT)
        self._encode, self._decode = _codec(tokenizer)

    @classmethod
    def load(cls, path: Path) -> ChatTokenizer:
        """The tokenizer of a checkpoint folder. Reads files, never the network.

        Raises:
            StartError: the folder holds no usable tokenizer.
        """
        return cls(load_hugging_face(path))

    @property
    def thinking(self) -> bool:
        """Whether the chat template has a switch for thinking."""
        return "enable_thinking" in self._template_text

    @property
    def template_text(self) -> str:
        """The chat template (all of them, where a tokenizer has several); empty if there is none."""
        return self._template_text

    @property
    def tokens(self) -> frozenset[str]:
        """Texts of the special and added tokens."""
        return self._tokens

    def prepare(
        self,
        messages: Sequence[Message],
        variables: Mapping[str, object],
        effort: str | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
        boundaries: bool = False,
    ) -> Rendered:
        """A conversation, ready for the assistant's turn. Blocks for milliseconds.

        Args:
            boundaries: whether to find them, which renders the conversation some more times.

        Raises:
            InvalidRequest: the template is missing, refuses the messages in any order of roles, or fails on them.
        """
        text, reading, given = self._render(messages, variables, effort, tools)
        thinks = not self.thinking or self._thinking_variables(variables).get("enable_thinking") is not False
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if not boundaries or backend is None:
            return Rendered(self._encode(text, False), text[-_TAIL:], thinks)
        encoding = encoded(backend, text, special=False)
        tokens, spans = encoding.ids, encoding.offsets
        cuts = self._cuts(text, reading, given)
        lengths = {whole_tokens(tokens, spans, cut, self._special.__contains__) for cut in cuts}
        return Rendered(tokens, text[-_TAIL:], thinks, tuple(sorted(lengths - {0})))

    def render_text(
        self,
        messages: Sequence[Message],
        variables: Mapping[str, object],
        effort: str | None = None,
        tools: Sequence[Mapping[str, object]] | None = None,
    ) -> str:
        """The text that `prepare` encodes. Raises the same."""
        return self._render(messages, variables, effort, tools)[0]

    def _render(
        self,
        messages: Sequence[Message],
        variables: Mapping[str, object],
        effort: str | None,
        tools: Sequence[Mapping[str, object]] | None,
    ) -> tuple[str, Sequence[Message], dict[str, object]]:
        """The text, the reading of the messages that the template took, and what it got beside them."""
        if not self._template_text:
            raise InvalidRequest("prompt build failed: the model has no chat template")
        given: dict[str, object] = {**self._depth(effort), **self._thinking_variables(variables)}
        if tools:
            given["tools"] = [dict(tool) for tool in tools]
        first: Exception | None = None
        for attempt in attempts(messages):
            try:
                return self._apply(attempt, given), attempt, given
            except Exception as error:  # whatever a template raises on somebody's messages is the request's fault
                first = first or error
        raise InvalidRequest(f"prompt build failed: {_one_line(first)}") from first

    def encode(self, text: str) -> list[int]:
        """Token ids of raw text, with the beginning-of-text token where the tokenizer adds one."""
        return self._encode(text, True)

    def encode_bare(self, text: str) -> list[int]:
        """Token ids of a text that stands within another one."""
        return self._encode(text, False)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids, special tokens included."""
        return self._decode(tokens)

    def piece(self, token: int) -> str:
        """The vocabulary's own spelling of a token, such as `▁Hello`; empty for one it does not have."""
        return str(self._tokenizer.convert_ids_to_tokens(token) or "")

    def xtc_exempt(self, ends: frozenset[int]) -> tuple[int, ...]:
        """Tokens that XTC leaves alone: the end tokens, and those of a line break."""
        return (*sorted(ends), *self._encode("\n", False))

    def detokenizer(self, markers: frozenset[str] = frozenset()) -> Detokenizer:
        """A fresh detokenizer for one row; special tokens have no text in it, except those that read as a marker."""
        return Detokenizer(
            self._decode, frozenset(token for token, text in self._special.items() if text not in markers)
        )

    def _apply(self, messages: Sequence[Message], given: Mapping[str, object], *, prompting: bool = True) -> str:
        text = self._tokenizer.apply_chat_template(
            [dict(message) for message in messages], tokenize=False, add_generation_prompt=prompting, **given
        )
        return str(text)

    def _cuts(self, text: str, messages: Sequence[Message], given: Mapping[str, object]) -> Iterator[int]:
        """Characters of a rendered conversation that it has in common with others it may be compared with."""
        for other in continuations(messages, "tools" in given):
            try:
                rendered = self._apply(other, given, prompting=False)
            except Exception:  # templates refuse what they like, and this was nobody's wish
                continue
            yield agreeing(text, rendered)

    def _thinking_variables(self, variables: Mapping[str, object]) -> dict[str, object]:
        """The variables of a request, with the family's own default for thinking where the request says nothing."""
        if self._direct and variables.get("enable_thinking") is None:
            return {**variables, "enable_thinking": False}
        return dict(variables)

    def _depth(self, effort: str | None) -> dict[str, str]:
        """Only templates that read `reasoning_effort` get it, in the words they know."""
        if effort not in _DEPTHS or "reasoning_effort" not in self._template_text:
            return {}
        depth = _DEPTHS[effort]
        return {"reasoning_effort": "xhigh" if depth == "high" and "xhigh" in self._template_text else depth}


def load_hugging_face(path: Path) -> Any:
    """The Hugging Face tokenizer of a checkpoint folder. Reads files, never the network.

    Raises:
        StartError: the folder holds no usable tokenizer.
    """
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # torch is not missed here
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # texts come one by one; a pool of threads would idle
    try:
        with _torch_hidden():
            from transformers import AutoTokenizer  # a second of imports that a `--help` should not pay

            return AutoTokenizer.from_pretrained(str(path), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # third-party code: it fails in many ways, all of which mean the same here
        raise StartError(f"cannot load the tokenizer in {path}: {_one_line(error)}") from error


def encoded(backend: Any, text: str, *, special: bool) -> Any:
    """The `Encoding` of a text by a `tokenizers.Tokenizer`, while other threads go on.

    Its `encode` keeps the interpreter to itself for as long as it takes, which is seconds for somebody's megabytes, and
    no stream would get a token meanwhile. For batches, even of one text, it lets go.
    """
    return backend.encode_batch([text], add_special_tokens=special)[0]


def pack_tokens(tokens: Sequence[int]) -> TokenBytes:
    """Token ids as they travel: 4 bytes each, little-endian."""
    packed = array("I", tokens)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


@contextmanager
def _torch_hidden() -> Iterator[None]:
    """Let transformers do without torch, which it loads wherever it finds it: seconds, and memory for every ingress."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = cast(ModuleType, None)  # Python's own way of saying "not installed"
    try:
        yield
    finally:
        del sys.modules["torch"]


def _codec(tokenizer: Any) -> tuple[Callable[[str, bool], list[int]], Callable[[Sequence[int]], str]]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # The Rust object may be shared between threads as long as nobody changes it, which the wrapper's own methods
        # do on each call (truncation, padding). So it is set once and used directly.
        backend.no_truncation()
        backend.no_padding()
        return (
            lambda text, special: encoded(backend, text, special=special).ids,
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


def _special(tokenizer: Any) -> dict[int, str]:
    """Ids and texts of the special tokens: those with a role, and those that the tokenizer's file calls special."""
    named = zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)
    flagged = {token: added for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    return {int(token): str(text) for token, text in [*named, *((token, flagged[token].content) for token in flagged)]}


def _template_text(tokenizer: Any) -> str:
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, Mapping):
        return "\n".join(str(text) for text in template.values())
    return template or ""


def _one_line(error: Exception | None) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
