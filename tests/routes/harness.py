"""What the route tests share: a small tokenizer, and a server around a scripted scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from actors.clock import FakeClock
from actors.generation.messages import Delta, Submit, choice_id
from actors.ids import RequestId
from actors.library.actor import Library
from actors.library.client import LibraryClient
from actors.models.card import ModelCard
from actors.responses.actor import ResponseStore
from actors.responses.client import ResponseStoreClient
from actors.settings import LibrarySettings, Settings
from routes.app import create_app
from routes.context import AppContext
from routes.output import grammar_switch, output_format
from routes.preparation import Preparation
from routes.tokenizer import ChatTokenizer
from tests.routes.figures import cache_statistics, lease_statistics, spill_statistics
from tests.routes.scripted_generation import ScriptedGeneration, Step, description, score
from tests.support.handle import Handle

TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'tool' and not message.tool_call_id %}{{ raise_exception('a tool needs an id') }}{% endif %}"
    "<|start|>{{ message.role }}:{{ message.content }}<|end|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant:{% endif %}"
    "{% if enable_thinking is defined and not enable_thinking %}[quick]{% endif %}"
)
SPECIAL = ("<|end|>", "<|start|>")
END = 256
_NOWHERE = LibrarySettings(state_dir="/dev/null/nowhere")
"""A folder that cannot be made: what a library keeps is for its own tests."""


def byte_tokenizer(template: str | None = TEMPLATE, special: Sequence[str] = ()) -> ChatTokenizer:
    """One token a byte, numbered by the byte-level alphabet; then `<|end|>` (256), `<|start|>` (257) and `special`."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(word, special=True) for word in (*SPECIAL, *special)])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=SPECIAL[0], bos_token=SPECIAL[1])
    wrapped.chat_template = template
    return ChatTokenizer(wrapped)


@dataclass
class House:
    """A server and everything a test may turn."""

    app: Starlette
    context: AppContext
    generation: ScriptedGeneration
    clock: FakeClock

    @property
    def row(self) -> Submit:
        """The one row that was submitted."""
        (row,) = self.generation.submitted
        return row

    @property
    def prompt(self) -> str:
        """The text of its prompt, special tokens included."""
        return self.context.tokenizer.decode(unpack(self.row.prompt))

    def says(self, *pieces: str, finish: str = "stop", cached: int = 0) -> None:
        """Rows answer with one delta a piece, a token a byte, then an end token or the end of their budget."""
        tokens = [tuple(self.context.tokenizer.encode(piece)) for piece in pieces]
        self.gives(*tokens, finish=finish, cached=cached)

    def says_each(self, *answers: Sequence[str], finish: str = "stop") -> None:
        """As `says`, with pieces of their own for each choice; the choices take turns."""

        def script(submit: Submit) -> Iterable[Step]:
            names = [choice_id(submit.request_id, index) for index in range(submit.choices)]
            for name in names:
                yield Delta(name, cached_tokens=0)
            for turn in range(max(map(len, answers)) + 1):
                for name, pieces in zip(names, answers, strict=True):
                    if turn < len(pieces):
                        yield self.delta(name, self.context.tokenizer.encode(pieces[turn]), submit.top_logprobs)
                    elif turn == len(pieces):
                        yield self.delta(name, (END,) if finish == "stop" else (), submit.top_logprobs, finish)

        self.generation.script = script

    @staticmethod
    def delta(name: RequestId, tokens: Sequence[int], top: int | None = None, finish: str | None = None) -> Delta:
        """One step of a row, scored when the request asked for it."""
        scores = () if top is None else tuple(score(token, top) for token in tokens)
        return Delta(name, tuple(tokens), finish=finish, scores=scores)

    def gives(self, *tokens: Sequence[int], finish: str = "stop", cached: int = 0) -> None:
        """As `says`, with token ids."""

        def script(submit: Submit) -> Iterable[Step]:
            for index in range(submit.choices):
                name = choice_id(submit.request_id, index)
                yield Delta(name, cached_tokens=cached)
                for piece in tokens:
                    yield self.delta(name, piece, submit.top_logprobs)
                yield self.delta(name, (END,) if finish == "stop" else (), submit.top_logprobs, finish)

        self.generation.script = script


def build(
    settings: dict[str, Any] | None = None,
    card: dict[str, Any] | None = None,
    tokenizer: ChatTokenizer | None = None,
    preparation: Preparation | None = None,
    environment: Mapping[str, str] | None = None,
) -> House:
    """A server; `settings` as in a configuration file, `card` overrides fields of the model's card."""
    generation, clock = ScriptedGeneration(), FakeClock()
    parsed = Settings.model_validate(settings or {})
    known = tokenizer or byte_tokenizer()
    generation.described = description(vocabulary=END + len(known.tokens))
    ingress = parsed.ingress
    context = AppContext(
        settings=parsed,
        card=model_card(**(card or {})),
        tokenizer=known,
        output=output_format(known, parsed.generation),
        generation=generation,
        cache_statistics=cache_statistics,
        close_session=generation.close_session,
        flush=generation.flush,
        spill_statistics=spill_statistics,
        lease_statistics=lease_statistics,
        responses=ResponseStoreClient(Handle(ResponseStore(parsed.responses, clock))),
        library=LibraryClient(Handle(Library(_NOWHERE, hub_cache=Path("/nowhere"), clock=clock))),
        preparation=preparation or Preparation(ingress.preparation_threads, ingress.preparation_queue, clock),
        started_at=1_700_000_000,
        replica="ingress-test",
        no_grammar=grammar_switch(parsed.generation, environment or {}),
        clock=clock,
    )
    return House(create_app(context), context, generation, clock)


def model_card(**changes: Any) -> ModelCard:
    values: dict[str, Any] = {
        "model_id": "org/tiny",
        "path": Path("/models/tiny"),
        "model_type": "llama",
        "context_window": 2048,
        "eos_token_ids": frozenset({END}),
        "temperature": None,
        "top_p": None,
        "top_k": None,
        "quantization_bits": None,
        "quantization_group": None,
        "weight_bytes": 1000,
        "fingerprint": "f" * 64,
    }
    return ModelCard(**{**values, **changes})


def unpack(packed: bytes) -> list[int]:
    return [int.from_bytes(packed[start : start + 4], "little") for start in range(0, len(packed), 4)]


def chat(text: str = "hi", **more: Any) -> dict[str, Any]:
    """A chat body with one user message."""
    return {"messages": [{"role": "user", "content": text}], **more}


def connect(house: House) -> httpx.AsyncClient:
    """A client that speaks to the application without a socket. A stream is complete when it returns."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=house.app), base_url="http://localhost")


def events(body: str) -> list[Any]:
    """The JSON of a stream's events; its end mark must be the last one."""
    frames = body.split("\n\n")
    assert frames.pop() == ""
    assert all(frame.startswith("data: ") for frame in frames)
    assert frames.pop() == "data: [DONE]"
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]
