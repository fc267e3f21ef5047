"""The way of every completion: prepare the prompt, submit the row, send its text. A client that leaves ends it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actors.errors import ClientGone, GenerationFailed
from actors.generation.messages import Description, Submit
from actors.ids import RequestId
from routes.context import AppContext, lane
from routes.disconnect import while_connected
from routes.exchange import Exchange, exchange_of, note_error
from routes.plan import plan_row
from routes.row import RowText
from routes.sampling import sampling_defaults
from routes.schema.generation import GenerationFields
from routes.sse import DONE, EventStream, error_frame

_TOKEN_BYTES = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a row ended, as a protocol tells it."""

    finish: str
    """`stop` or `length`."""
    usage: dict[str, object]
    """The `usage` object."""


class Shape(Protocol):
    """One protocol's JSON. `opening`, `piece` and `closing` are whole event frames, `whole` is a body."""

    def opening(self) -> bytes:
        """What comes before any text; may be empty."""
        ...

    def piece(self, text: str) -> bytes: ...

    def closing(self, outcome: Outcome) -> bytes: ...

    def whole(self, text: str, outcome: Outcome) -> bytes: ...


ShapeMaker = Callable[[str, str, int], Shape]
"""From response id, model id and creation time in seconds since the epoch."""


@dataclass(frozen=True)
class Job:
    """One parsed request on its way."""

    context: AppContext
    request_id: RequestId
    prompt: Callable[[], Sequence[int]]
    """Renders and tokenizes; runs in a preparation thread."""
    wanted: GenerationFields
    shape: ShapeMaker


async def answer(job: Job, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request, streamed or whole. Its body must have been read.

    Cancelling it, like the client's leaving, gives up its place in line or cancels its row.

    Raises:
        ClientGone: the client left, in whatever phase.
        TroupeError: it failed before the response began; later failures are told in the stream.
    """
    exchange = exchange_of(scope)
    try:
        async with while_connected(receive):
            description = job.context.generation.description
            submit = await job.context.preparation.run(partial(_plan, job, description))
            exchange.prepared_s = exchange.elapsed()
            exchange.prompt_tokens = len(submit.prompt) // _TOKEN_BYTES
            shape = job.shape(job.request_id, description.model_id, int(time.time()))
            row = RowText(job.context.tokenizer.detokenizer(), job.wanted.stops)
            if job.wanted.stream:
                await _stream(job.context, submit, row, shape, description, exchange, send)
            else:
                body = await _collect(job.context, submit, row, shape, description, exchange)
                await Response(body, media_type="application/json")(scope, receive, send)
    except ClientGone:
        job.context.gate.count_gone()
        raise


def _plan(job: Job, description: Description) -> Submit:
    context = job.context
    defaults = sampling_defaults(context.settings.generation, context.card)
    return plan_row(
        job.request_id,
        context.generation.ingress,
        job.prompt(),
        job.wanted,
        context.settings.generation,
        defaults,
        description,
    )


@asynccontextmanager
async def _texts(
    context: AppContext, submit: Submit, row: RowText, exchange: Exchange
) -> AsyncIterator[AsyncIterator[str]]:
    """Submit the row, then iterate over its text, a piece a delta (may be empty), until it has finished.

    Leaving the block ends the row, also one whose stop string came before its end token.
    """
    async with context.generation.generate(submit) as deltas:

        async def pieces() -> AsyncGenerator[str, None]:
            async for delta in deltas:
                if exchange.first_token_s is None:
                    exchange.first_token_s = exchange.elapsed()
                yield row.feed(delta)
                if row.finish is not None:
                    return
            raise GenerationFailed("the answer ended without a finish")

        reading = pieces()
        try:
            async with contextlib.aclosing(reading):
                yield reading
        finally:
            exchange.completion_tokens = row.completion_tokens
            exchange.cached_tokens = row.cached_tokens


async def _stream(
    context: AppContext,
    submit: Submit,
    row: RowText,
    shape: Shape,
    description: Description,
    exchange: Exchange,
    send: Send,
) -> None:
    events = EventStream(send)
    try:
        async with _texts(context, submit, row, exchange) as texts:
            await events.begin(shape.opening())
            with context.gate.streaming():
                async for text in texts:
                    if text:
                        await events.write(shape.piece(text))
        await events.end(shape.closing(_outcome(row, exchange, description)) + DONE)
    except Exception as error:
        if not events.begun:
            raise
        note_error(exchange, error)
        await events.end(error_frame(error))


async def _collect(
    context: AppContext, submit: Submit, row: RowText, shape: Shape, description: Description, exchange: Exchange
) -> bytes:
    async with _texts(context, submit, row, exchange) as texts:
        text = "".join([piece async for piece in texts])
    return shape.whole(text, _outcome(row, exchange, description))


def _outcome(row: RowText, exchange: Exchange, description: Description) -> Outcome:
    prompt_tokens = exchange.prompt_tokens or 0
    return Outcome(
        finish=row.finish or "stop",
        usage={
            "prompt_tokens": prompt_tokens,
            "completion_tokens": row.completion_tokens,
            "total_tokens": prompt_tokens + row.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": row.cached_tokens},
            "lane": lane(description),
        },
    )
