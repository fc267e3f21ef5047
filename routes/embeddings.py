"""POST /v1/embeddings."""

from __future__ import annotations

import asyncio
import sys
from array import array
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actors import ids
from actors.embedding.messages import Embed
from actors.errors import ClientGone, InvalidRequest
from actors.models.embedding_card import EmbeddingCard
from routes.body import read_json
from routes.context import AppContext, Embeddings
from routes.disconnect import while_connected
from routes.embedding_tokenizer import EmbeddingTokenizer
from routes.exchange import exchange_of
from routes.schema.embeddings import EmbeddingRequest, read_embedding_request
from routes.tokenizer import pack_tokens
from routes.wire import json_bytes

SLICE = 1 << 16
"""Characters of text, or token ids, that are tokenized in one go: prompts of chats take turns with them."""

BREATH = 32
"""Vectors written in one go: running streams go on in between."""


class EmbeddingsRoute:
    """An ASGI application."""

    def __init__(self, context: AppContext) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context, embeddings = self._context, self._context.embeddings
        exchange = exchange_of(scope)
        exchange.request_id = request_id = ids.embedding_id()
        with context.gate.pass_through():
            body = await read_json(Request(scope, receive), context.settings.server.max_body_bytes)
            if embeddings is None:
                raise InvalidRequest(
                    f"{context.card.model_id} is no embedding model, and this server has none beside it "
                    "(embeddings.model in its configuration)"
                )
            wanted = read_embedding_request(body)
            card = embeddings.client.card
            dimensions = _dimensions(wanted, card)
            try:
                async with while_connected(receive):
                    texts = await self._prepared(wanted, embeddings)
                    exchange.prepared_s = exchange.elapsed()
                    exchange.prompt_tokens = tokens = sum(len(text) for text in texts)
                    packed = tuple(pack_tokens(text) for text in texts)
                    answer = await embeddings.client.embed(Embed(request_id, packed, dimensions))
                    content = await _content(card.model.model_id, answer.vectors, wanted.base64, tokens)
            except ClientGone:
                context.gate.count_gone()
                raise
            await Response(content, media_type="application/json")(scope, receive, send)

    async def _prepared(self, wanted: EmbeddingRequest, embeddings: Embeddings) -> list[Sequence[int]]:
        """The tokens of every text. Cancelling gives the place in line up."""
        texts: list[Sequence[int]] = []
        for places in _slices(wanted.texts):
            work = partial(tokenize, wanted, places, embeddings.client.card, embeddings.tokenizer)
            texts += await self._context.preparation.run(work)
        return texts


def tokenize(
    wanted: EmbeddingRequest, places: range, card: EmbeddingCard, tokenizer: EmbeddingTokenizer
) -> list[Sequence[int]]:
    """The tokens of the texts at `places`, checked against what the model reads. Blocks for milliseconds.

    Raises:
        InvalidRequest: a text is too long, has no tokens, or has one that the model does not know.
    """
    found: list[Sequence[int]] = []
    for place in places:
        where = f"input[{place}]"
        tokens = _tokens(wanted.texts[place], where, wanted, tokenizer)
        if max(tokens) >= card.vocabulary:
            raise InvalidRequest(f"{where} holds the token id {max(tokens)}; the model has {card.vocabulary}")
        found.append(tokens)
    return found


def _slices(texts: Sequence[str] | Sequence[Sequence[int]]) -> Iterator[range]:
    """Places of texts that are tokenized in one go."""
    start = size = 0
    for place, text in enumerate(texts):
        if size and size + len(text) > SLICE:
            yield range(start, place)
            start, size = place, 0
        size += len(text)
    yield range(start, len(texts))


def _tokens(
    text: str | Sequence[int], where: str, wanted: EmbeddingRequest, tokenizer: EmbeddingTokenizer
) -> Sequence[int]:
    if not isinstance(text, str):
        return tokenizer.fit(text, wanted.cut, where)
    if wanted.instruction is not None:
        text = f"Instruct: {wanted.instruction}\nQuery:{text}"
    return tokenizer.encode(text, wanted.cut, where)


def _dimensions(wanted: EmbeddingRequest, card: EmbeddingCard) -> int:
    """Numbers of each vector. Raises InvalidRequest for what the model cannot do."""
    if wanted.instruction is not None and not card.instructs:
        raise InvalidRequest(f"{card.model.model_id} reads no instruction; leave it out")
    if wanted.dimensions is not None and wanted.dimensions > card.dimensions:
        raise InvalidRequest(f"dimensions must be at most {card.dimensions}, which is what the model gives")
    return wanted.dimensions or card.dimensions


async def _content(model_id: str, vectors: Sequence[bytes], base64: bool, tokens: int) -> bytes:
    """The body of the answer, written in pieces."""
    pieces: list[bytes] = []
    for index, vector in enumerate(vectors):
        value = b64encode(vector).decode() if base64 else _floats(vector)
        pieces.append(json_bytes({"object": "embedding", "index": index, "embedding": value}))
        if index % BREATH == BREATH - 1:
            await asyncio.sleep(0)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    rest = json_bytes({"model": model_id, "usage": usage})
    return b'{"object":"list","data":[' + b",".join(pieces) + b"]," + rest.removeprefix(b"{")


def _floats(vector: bytes) -> list[float]:
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
