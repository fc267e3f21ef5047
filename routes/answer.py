"""The way of every completion: prepare the prompt, submit its rows, send their text. A client that leaves ends them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actors.errors import ClientGone, GenerationFailed
from actors.generation.client import RowDeltas
from actors.generation.grammar.constraint import Constraint
from actors.generation.messages import Description, Submit, choice_id
from actors.ids import RequestId
from routes.context import AppContext, lane
from routes.disconnect import while_connected
from routes.exchange import Exchange, exchange_of, note_error
from routes.logprobs import logprobs_block
from routes.order import Order
from routes.parts import Content, Part, Reasoning, ToolCall
from routes.plan import plan_row
from routes.prompt import Prompt
from routes.pulse import Pulse
from routes.row import RowAnswer
from routes.sampling import sampling_defaults
from routes.schema.gaps import gaps
from routes.shape import Choice, Shape, Usage
from routes.sse import EventStream
from routes.trace import phase

_TOKEN_BYTES = 4

HEARTBEAT_S = 5.0
"""Silence on a stream, before an answer begins or while a tool call is held back, after which a comment is sent."""


@dataclass(frozen=True)
class Job:
    """One parsed request on its way."""

    context: AppContext
    request_id: RequestId
    order: Order


@dataclass(frozen=True)
class _Run:
    """A job whose prompt is ready."""

    job: Job
    submit: Submit
    prompt: Prompt
    rows: Sequence[RowAnswer]
    """One a choice, in order."""
    description: Description
    exchange: Exchange
    headers: dict[str, str]
    """Of the response."""

    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=len(self.submit.prompt) // _TOKEN_BYTES,
            cached_tokens=self.rows[0].cached_tokens,
            completion_tokens=sum(row.completion_tokens for row in self.rows),
            reasoning_tokens=sum(row.reasoning_tokens for row in self.rows),
            lane=lane(self.description),
        )

    def shape(self) -> Shape:
        return self.job.order.shape(self.job.request_id, self.description.model_id, int(time.time()))

    async def conclude(self) -> None:
        if self.job.order.conclude is not None:
            await self.job.order.conclude()


async def answer(job: Job, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request, streamed or whole. Its body must have been read.

    Cancelling it, like the client's leaving, gives up its place in line or cancels its rows.

    Raises:
        ClientGone: the client left, in whatever phase.
        TroupeError: it failed before the response began; later failures are told in the stream.
    """
    exchange = exchange_of(scope)
    try:
        async with while_connected(receive):
            run = await _prepare(job, exchange)
            with phase(exchange.trace, "completion.total"):
                if job.order.wanted.stream:
                    await _stream(run, send)
                    return
                body = await _collect(run)
            await Response(body, media_type="application/json", headers=run.headers)(scope, receive, send)
            if exchange.trace is not None:
                exchange.trace.written(final=True)
    except ClientGone:
        job.context.gate.count_gone()
        raise


async def _prepare(job: Job, exchange: Exchange) -> _Run:
    context, wanted = job.context, job.order.wanted
    description = context.generation.description
    with phase(exchange.trace, "request.prompt_prepare", "prepare_completion"), context.preparing.counted():
        prompt, warning = await _prompt(job)
        submit = plan_row(
            job.request_id,
            context.generation.ingress,
            prompt,
            wanted,
            context.settings.generation,
            sampling_defaults(context.settings.generation, context.card),
            description,
            context.tokenizer.xtc_exempt(context.card.eos_token_ids),
            traced=exchange.trace is not None,
            coming=len(context.preparing) - 1,
        )
    exchange.prepared_s = exchange.elapsed()
    exchange.prompt_tokens = len(prompt.tokens)
    rows = [
        RowAnswer(context.tokenizer.detokenizer(prompt.markers), wanted.stops, prompt.splitter())
        for _ in range(wanted.choices)
    ]
    return _Run(job, submit, prompt, rows, description, exchange, {"warning": warning} if warning else {})


async def _prompt(job: Job) -> tuple[Prompt, str | None]:
    """The prompt, and a warning when its constraint cannot be enforced; the model is then asked in words.

    Where only some keywords of a schema cannot be enforced, the rest of it is.
    """
    prepare = job.context.preparation.run
    prompt = await prepare(partial(job.order.prompt, None))
    if prompt.constraint is None:
        return prompt, None
    reason = job.context.no_grammar or await job.context.generation.compile(prompt.constraint)
    if reason is None:
        wish = job.order.wanted.constraint
        left_out = gaps(wish.source) if wish is not None and wish.kind == "json_schema" else ()
        return prompt, f"grammar not enforced: the JSON schema's {', '.join(left_out)}" if left_out else None
    if prompt.constraint.kind == "free":
        return replace(prompt, constraint=None), f"thinking budget not enforced: {_header_text(reason)}"
    if prompt.instruction is not None:
        prompt = await prepare(partial(job.order.prompt, prompt.instruction))
    return await _unruled(job, prompt), f"grammar not enforced: {_header_text(reason)}"


async def _unruled(job: Job, prompt: Prompt) -> Prompt:
    """The prompt without its constraint, but for a budget of thinking that can be kept all the same."""
    budget = None if prompt.constraint is None else prompt.constraint.budget
    if budget is None or job.context.no_grammar is not None:
        return replace(prompt, constraint=None)
    alone = Constraint("free", budget=budget)
    kept = await job.context.generation.compile(alone) is None
    return replace(prompt, constraint=alone if kept else None)


def _header_text(words: str) -> str:
    """One short line of what a header may hold: reasons quote what a client has sent."""
    line = " ".join(words.split())[:400]
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in line)


@asynccontextmanager
async def _parts(run: _Run) -> AsyncIterator[AsyncIterator[tuple[int, list[Part]]]]:
    """Submit the rows, then iterate over what they say: index and parts (may be none), until all have finished.

    Leaving the block ends the rows, also those whose stop string came before their end token.
    """
    exchange, rows = run.exchange, run.rows
    index_of = {choice_id(run.job.request_id, index): index for index in range(len(rows))}
    async with run.job.context.generation.generate(run.submit) as deltas:

        async def parts() -> AsyncGenerator[tuple[int, list[Part]], None]:
            left = len(rows)
            async for delta in deltas:
                if exchange.first_token_s is None:
                    exchange.first_token_s = exchange.elapsed()
                if exchange.trace is not None and delta.marks:
                    exchange.trace.take(delta.marks)
                row = rows[index_of[delta.request_id]]
                if row.finish is not None:
                    continue
                said = row.feed(delta)
                if row.finish is not None:
                    left -= 1
                    _end(deltas, delta.request_id, delta.finish, left)
                yield index_of[delta.request_id], said
                if left == 0:
                    return
            raise GenerationFailed("the answer ended without a finish")

        reading = parts()
        try:
            async with contextlib.aclosing(reading):
                yield reading
        finally:
            exchange.completion_tokens = sum(row.completion_tokens for row in rows)
            exchange.cached_tokens = rows[0].cached_tokens
            exchange.choices = len(rows)


def _end(deltas: RowDeltas, name: RequestId, finish: str | None, left: int) -> None:
    """End a row that goes on though its answer is complete, unless all are: they end with the block."""
    if finish is None and left > 0:
        deltas.end(name)


async def _stream(run: _Run, send: Send) -> None:
    context = run.job.context
    shape = run.shape()
    events = EventStream(send, run.headers, run.exchange.trace)
    pulse = Pulse(events, shape.heartbeat, HEARTBEAT_S)
    clock, spoken, index, prompted = context.clock, context.clock.now(), 0, False
    try:
        async with _parts(run) as said:
            await events.begin(b"".join(shape.opening(index) for index in range(len(run.rows))))
            pulse.start()
            with context.gate.streaming():
                async for index, parts in said:
                    pulse.stop()
                    row = run.rows[index]
                    frames = b"" if prompted else shape.prompted(run.usage())
                    prompted = True
                    frames += shape.pieces(index, parts) if parts else b""
                    last = all(row.finish is not None for row in run.rows)
                    if row.finish is not None and not last:
                        frames += shape.closing(index, row.finish, None, row.stop)
                    if frames:
                        await events.write(frames)
                        spoken = clock.now()
                    elif row.buffering and clock.now() - spoken >= HEARTBEAT_S:
                        await events.write(shape.heartbeat)
                        spoken = clock.now()
        ended = run.rows[index]
        closing = shape.closing(index, ended.finish or "stop", run.usage(), ended.stop)
        await run.conclude()
        await events.end(closing + shape.end)
    except Exception as error:
        if not events.begun:
            raise
        note_error(run.exchange, error)
        pulse.stop()
        await events.end(shape.failing(error))
    finally:
        pulse.stop()


async def _collect(run: _Run) -> bytes:
    collected: list[list[Part]] = [[] for _ in run.rows]
    async with _parts(run) as said:
        async for index, parts in said:
            collected[index] += parts
    choices = [_choice(run, row, parts) for row, parts in zip(run.rows, collected, strict=True)]
    body = run.shape().whole(choices, run.usage())
    await run.conclude()
    return body


def _choice(run: _Run, row: RowAnswer, parts: list[Part]) -> Choice:
    top = run.job.order.wanted.top_logprobs
    return Choice(
        content="".join(part.text for part in parts if isinstance(part, Content)),
        reasoning="".join(part.text for part in parts if isinstance(part, Reasoning)),
        calls=tuple(part for part in parts if isinstance(part, ToolCall)),
        finish=row.finish or "stop",
        logprobs=None if top is None else logprobs_block(row.scored, top, run.job.context.tokenizer.piece),
        parts=tuple(parts),
        stop=row.stop,
    )
