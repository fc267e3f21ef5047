"""What the embedder answers to messages that no route would send, and while it stops."""

from __future__ import annotations

import array
import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from actors.embedding.actor import Embedder
from actors.embedding.messages import CancelEmbedding, Embed, Embedded, Failure
from actors.gpu_lease.actor import GpuLease
from actors.ids import RequestId
from actors.models.embedding_card import read_embedding_card
from actors.settings import parse
from tests.support import embedders
from tests.support.handle import Handle


def message(*texts: Sequence[int], name: str = "one", dimensions: int = 64) -> Embed:
    return Embed(RequestId(name), tuple(array.array("I", text).tobytes() for text in texts), dimensions)


@pytest.fixture
async def embedder(tmp_path: Path) -> AsyncIterator[Embedder]:
    settings = parse({})
    card = read_embedding_card(embedders.tiny_qwen3(tmp_path / "vectors", tokens=16), "vectors")
    lease = Handle(GpuLease(settings.gpu_lease, tmp_path / "lease.json"))
    actor = Embedder(settings, card, lambda: lease)
    await actor.start()
    yield actor
    await actor.close()


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (message(), "there is no text"),
        (message([1], []), "a text has no tokens"),
        (message([1] * 17), "a text has 17 tokens, where the model reads 16"),
        (message([257]), "token id 257 is not in the vocabulary of 257"),
        (message([1], dimensions=65), "dimensions must be from 1 to 64"),
        (message([1], dimensions=0), "dimensions must be from 1 to 64"),
    ],
)
async def test_what_the_model_cannot_read_never_reaches_it(embedder: Embedder, bad: Embed, sentence: str) -> None:
    assert await embedder.embed(bad) == Failure("InvalidRequest", sentence)
    assert not (await embedder.statistics()).loaded


async def test_a_name_that_is_open_is_refused_and_free_again_afterwards(embedder: Embedder) -> None:
    first = asyncio.ensure_future(embedder.embed(message([1, 2])))
    await asyncio.sleep(0)
    second = await embedder.embed(message([3]))
    assert isinstance(second, Failure)
    assert "running already" in second.message
    assert isinstance(await first, Embedded)
    assert isinstance(await embedder.embed(message([3])), Embedded)


async def test_a_cancel_answers_at_once_also_while_the_weights_load(embedder: Embedder) -> None:
    asked = asyncio.ensure_future(embedder.embed(message([1, 2])))
    await asyncio.sleep(0)
    await embedder.cancel(CancelEmbedding(RequestId("one")))
    await embedder.cancel(CancelEmbedding(RequestId("one")))
    await embedder.cancel(CancelEmbedding(RequestId("unknown")))
    answer = await asked
    assert isinstance(answer, Failure)
    assert answer.error == "ClientGone"
    figures = await embedder.statistics()
    assert (figures.cancelled_requests, figures.open_requests) == (1, 0)
    assert isinstance(await embedder.embed(message([3], name="next")), Embedded)


async def test_a_drain_waits_for_what_is_open_and_refuses_the_rest(embedder: Embedder) -> None:
    asked = asyncio.ensure_future(embedder.embed(message(*[[1, 2, 3]] * 20)))
    await asyncio.sleep(0)
    draining = asyncio.ensure_future(embedder.drain())
    await asyncio.sleep(0)
    late = await embedder.embed(message([1], name="late"))
    assert isinstance(late, Failure)
    assert late.error == "ShuttingDown"
    await draining
    assert (await embedder.statistics()).open_requests == 0
    answer = await asked
    assert isinstance(answer, Embedded)
    assert len(answer.vectors) == 20


async def test_closing_answers_what_is_open(embedder: Embedder) -> None:
    asked = asyncio.ensure_future(embedder.embed(message([1, 2])))
    await asyncio.sleep(0)
    await embedder.close()
    answer = await asked
    assert isinstance(answer, Failure)
    assert answer.error == "ShuttingDown"
