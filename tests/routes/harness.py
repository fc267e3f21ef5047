"""What the route tests share: a small tokenizer, a scripted scheduler, and a server around them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from actors.clock import FakeClock
from actors.errors import CacheUnavailable, EngineUnavailable
from actors.generation.grammar.constraint import Constraint
from actors.generation.messages import (
    Delta,
    Description,
    Flushed,
    SchedulerStatistics,
    Score,
    SpillingStatistics,
    Submit,
    choice_id,
)
from actors.gpu_lease.messages import ClassStatistics, LeaseStatistics
from actors.ids import Incarnation, IngressId, RequestId
from actors.library.actor import Library
from actors.library.client import LibraryClient
from actors.models.card import ModelCard
from actors.prompt_cache.messages import CacheStatistics
from actors.responses.actor import ResponseStore
from actors.responses.client import ResponseStoreClient
from actors.settings import LibrarySettings, Settings
from actors.spill.messages import SpillStatistics
from routes.app import create_app
from routes.context import AppContext
from routes.output import grammar_switch, output_format
from routes.preparation import Preparation
from routes.tokenizer import ChatTokenizer
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


Step = Delta | Exception | asyncio.Event
Script = Callable[[Submit], Iterable[Step]]


def description(**changes: Any) -> Description:
    """A scheduler that batches eight rows, without a context cap."""
    values: dict[str, Any] = {
        "incarnation": Incarnation("one"),
        "model_id": "org/tiny",
        "model_path": "/models/tiny",
        "mailbox_host": "127.0.0.1",
        "mailbox_port": 1,
        "mailbox_secret": "secret",
        "vocabulary": 258,
        "context_limit": None,
        "max_rows": 8,
        "batchable": True,
        "trimmable": True,
        "weight_bytes": 1000,
        "dtype": "float32",
        "device": "cpu",
    }
    return Description(**{**values, **changes})


def score(token: int, top: int) -> Score:
    """What the scripted scheduler says of a token: it was the likeliest one, the next ids come after it."""
    ranked = tuple((token + place, -(token + 1000.0 * place) / 1024) for place in range(top))
    return Score(-token / 1024, ranked)


class ScriptedDeltas:
    """Deltas of a script, and a note of the rows that were ended early, of which no more comes."""

    def __init__(self, deltas: AsyncIterator[Delta], ended: list[RequestId]) -> None:
        self._deltas = deltas
        self._ended = ended

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self._going()

    async def _going(self) -> AsyncIterator[Delta]:
        async for delta in self._deltas:
            if delta.request_id not in self._ended:
                yield delta

    def end(self, name: RequestId) -> None:
        self._ended.append(name)


class ScriptedGeneration:
    """A `GenerationClient` whose rows do what a script says: give a delta, raise, or wait for an event."""

    ingress = IngressId("ingress-test")

    def __init__(self) -> None:
        self.described: Description | None = description()
        self.refusal: Exception | None = None
        self.script: Script = lambda submit: ()
        self.submitted: list[Submit] = []
        self.cancelled: list[RequestId] = []
        self.ended: list[RequestId] = []
        """Rows of several that the reader ended."""
        self.compiled: list[Constraint] = []
        self.unenforceable: str | None = None
        """Why no constraint can be enforced, if none can."""
        self.entered = asyncio.Event()
        self.down = False
        self.closed_sessions: list[str] = []
        """What the prompt-cache manager was told."""
        self.spilling: SpillingStatistics | None = None
        """The scheduler's side of the SSD tier."""
        self.flushes: list[float] = []
        """How many seconds each flush was given."""
        self.flushed = Flushed(attached=False)
        """What a flush comes to."""

    async def flush(self, timeout_s: float) -> Flushed:
        if self.down:
            raise EngineUnavailable("the generation scheduler does not answer")
        self.flushes.append(timeout_s)
        return self.flushed

    async def close_session(self, session: str) -> None:
        if self.down:
            raise CacheUnavailable("the prompt-cache manager does not answer; try again")
        self.closed_sessions.append(session)

    @property
    def description(self) -> Description:
        if self.described is None:
            raise EngineUnavailable("the scheduler is restarting")
        return self.described

    @asynccontextmanager
    async def generate(self, request: Submit) -> AsyncIterator[ScriptedDeltas]:
        if self.refusal is not None:
            raise self.refusal
        self.submitted.append(request)
        self.entered.set()
        going = {choice_id(request.request_id, index) for index in range(request.choices)}

        async def read() -> AsyncIterator[Delta]:
            for step in self.script(request):
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, Exception):
                    going.clear()
                    raise step
                else:
                    if step.finish is not None:
                        going.discard(step.request_id)
                    yield step

        try:
            yield ScriptedDeltas(read(), self.ended)
        finally:
            if going.difference(self.ended):
                self.cancelled.append(request.request_id)

    async def compile(self, constraint: Constraint) -> str | None:
        self.compiled.append(constraint)
        return self.unenforceable

    async def statistics(self) -> SchedulerStatistics:
        if self.down:
            raise EngineUnavailable("the scheduler is restarting")
        numbers: dict[str, Any] = dict.fromkeys(SchedulerStatistics.__dataclass_fields__, 0)
        numbers["spilling"] = self.spilling
        numbers.update(active_rows=2, waiting_rows=3, prefilling_rows=1, submitted_rows=9, kv_bytes=77)
        return SchedulerStatistics(**numbers)


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


async def spill_statistics() -> SpillStatistics:
    return SpillStatistics(
        directory="/prefixes",
        available=True,
        problem=None,
        entries=12,
        size=3456,
        max_size=9000,
        written_records=11,
        written_bytes=3000,
        pending_records=2,
        pending_bytes=200,
        failed_writes=1,
        refused_writes=0,
        set_aside=1,
        ssd_evictions=3,
        longest_prefix_tokens=640,
        mailbox_depth=0,
    )


async def cache_statistics() -> CacheStatistics:
    return CacheStatistics(
        entries=4,
        size=500,
        max_size=9000,
        hits=6,
        misses=7,
        hit_tokens=80,
        evictions=1,
        demotions=0,
        reclaimed=0,
        sessions=3,
        session_hits=2,
        session_misses=4,
        prefix_scans=11,
        pinned=2,
        mailbox_depth=0,
    )


async def lease_statistics() -> LeaseStatistics:
    waiting = ClassStatistics(waiting=1, grants=5, wait_s=0.5, oldest_wait_s=0.25, work_s=3.0)
    return LeaseStatistics(
        epoch=3,
        holder="generation:one",
        held_s=1.5,
        classes={"interactive": waiting},
        deaths=0,
        reserved_bytes=1000,
        budget_bytes=8000,
        mailbox_depth=1,
    )


def unpack(packed: bytes) -> list[int]:
    return [int.from_bytes(packed[start : start + 4], "little") for start in range(0, len(packed), 4)]


def chat(text: str = "hi", **more: Any) -> dict[str, Any]:
    """A chat body with one user message."""
    return {"messages": [{"role": "user", "content": text}], **more}


class Call:
    """One request spoken to the application by hand, so that a test decides when the client leaves."""

    def __init__(self, app: Starlette, path: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.sent: list[Any] = []
        self.streamed = asyncio.Event()
        self._left = asyncio.Event()
        self._body: list[bytes] = [body]
        self.sending: Callable[[Any], Awaitable[None]] | None = None
        """Takes what is sent, in the place of `sent`."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "server": ("test", 80),
            "client": ("test", 1),
            "headers": [
                (name.encode(), value.encode()) for name, value in {"host": "localhost", **(headers or {})}.items()
            ],
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    def leave(self) -> None:
        """The client closes its connection."""
        self._left.set()

    @property
    def status(self) -> int | None:
        """The status that was sent, if any."""
        return next((message["status"] for message in self.sent if message["type"] == "http.response.start"), None)

    @property
    def body(self) -> bytes:
        """The body as far as it was sent."""
        return b"".join(message.get("body", b"") for message in self.sent)

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop(), "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self.sending is not None:
            await self.sending(message)
        self.sent.append(message)
        if message["type"] == "http.response.body":
            self.streamed.set()


async def turns(count: int = 20) -> None:
    """Let the event loop run what is ready."""
    for _ in range(count):
        await asyncio.sleep(0)


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
