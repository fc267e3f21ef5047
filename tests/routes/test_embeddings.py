"""POST /v1/embeddings in front of an embedder that does what a test wants."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, replace
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from tokenizers import Tokenizer, models, pre_tokenizers

from actors.embedding.messages import Embed, Embedded, EmbedderStatistics
from actors.errors import EngineUnavailable, GenerationFailed, QueueFull
from actors.models.embedding_card import EmbeddingCard
from routes.app import create_app
from routes.context import AppContext, Embeddings
from routes.embedding_tokenizer import EmbeddingTokenizer
from routes.embeddings import SLICE
from tests.routes.call import Call, turns
from tests.routes.harness import build, model_card, unpack

URL = "/v1/embeddings"


class ScriptedEmbedder:
    """Answers each text with (its length, 0.5, 0.5 ...), or raises, or waits."""

    def __init__(self, card: EmbeddingCard) -> None:
        self.card = card
        self.requests: list[Embed] = []
        self.error: Exception | None = None
        self.entered = asyncio.Event()
        self.hold: asyncio.Event | None = None
        self.cancelled = 0

    async def embed(self, request: Embed) -> Embedded:
        self.requests.append(request)
        self.entered.set()
        try:
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        vectors = [np.full(request.dimensions, 0.5, dtype="<f4") for _ in request.texts]
        for vector, text in zip(vectors, request.texts, strict=True):
            vector[0] = len(unpack(text))
        return Embedded(tuple(vector.tobytes() for vector in vectors))

    async def statistics(self) -> EmbedderStatistics:
        if self.error is not None:
            raise self.error
        figures: dict[str, Any] = dict.fromkeys(EmbedderStatistics.__dataclass_fields__, 0)
        return EmbedderStatistics(**figures)


@dataclass
class Desk:
    app: Starlette
    context: AppContext
    embedder: ScriptedEmbedder

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app), base_url="http://localhost")

    async def post(self, **body: Any) -> httpx.Response:
        async with self.client() as client:
            return await client.post(URL, json=body)


def desk(instructs: bool = True, generates: bool = True, **settings: Any) -> Desk:
    """A server whose embedding model reads 8 tokens of letters a to z."""
    card = EmbeddingCard(model_card(model_id="org/vectors"), "mean", 8, 4, 26, instructs)
    letters = {letter: place for place, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
    backend: Any = Tokenizer(models.WordLevel(letters | {"?": 25}, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    embedder = ScriptedEmbedder(card)
    house = build(settings)
    served = house.context.card if generates else card.model
    embeddings = Embeddings(embedder, EmbeddingTokenizer(backend, card.max_tokens))
    context = replace(house.context, card=served, generates=generates, embeddings=embeddings)
    return Desk(create_app(context), context, embedder)


async def test_vectors_come_in_the_order_of_the_texts_with_exact_usage() -> None:
    answer = await desk().post(input=["abc", "a"], model="whatever")
    assert answer.status_code == 200
    assert answer.json() == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [3.0, 0.5, 0.5, 0.5]},
            {"object": "embedding", "index": 1, "embedding": [1.0, 0.5, 0.5, 0.5]},
        ],
        "model": "org/vectors",
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    }


async def test_base64_holds_little_endian_float32() -> None:
    answer = await desk().post(input="ab", encoding_format="base64", dimensions=2)
    raw = base64.b64decode(answer.json()["data"][0]["embedding"])
    np.testing.assert_array_equal(np.frombuffer(raw, "<f4"), [2.0, 0.5])


async def test_token_ids_reach_the_model_as_they_are() -> None:
    one = desk()
    assert (await one.post(input=[[3, 4], [25]])).json()["usage"]["prompt_tokens"] == 3
    assert [unpack(text) for text in one.embedder.requests[0].texts] == [[3, 4], [25]]


async def test_an_instruction_stands_in_front_of_each_text() -> None:
    one = desk()
    long = await one.post(input="ab", instruction="find", truncate="start")
    assert long.json()["usage"]["prompt_tokens"] == 8
    (text,) = one.embedder.requests[0].texts
    # The end of "Instruct: find\nQuery:ab"; the model knows small letters only.
    assert unpack(text) == [25, *(ord(letter) - 97 for letter in "uery"), 25, 0, 1]


async def test_long_texts_are_refused_with_the_limit_or_cut_as_asked() -> None:
    one = desk()
    refused = await one.post(input=["a", "abcdefghij"])
    assert refused.status_code == 400
    assert refused.json()["error"] == {
        "message": "input[1] has 10 tokens, where the model reads 8; set truncate to have it cut",
        "type": "invalid_request_error",
    }
    assert (await one.post(input="abcdefghij", truncate=True)).json()["usage"]["prompt_tokens"] == 8
    assert unpack(one.embedder.requests[0].texts[0]) == list(range(8))


async def test_many_texts_are_tokenized_in_slices() -> None:
    one = desk()
    text = "a" * 8
    texts = [text] * 20 + ["b" * (SLICE + 1)] + [text] * 3
    answer = await one.post(input=texts, truncate=True)
    assert len(answer.json()["data"]) == 24
    assert one.context.preparation.statistics().prepared == 3


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "input must be"),
        ({"input": ""}, "input must not be empty"),
        ({"input": [26]}, "input[0] holds the token id 26; the model has 26"),
        ({"input": [[1], [2**70]]}, "input[1] holds the token id"),
        ({"input": "ab", "dimensions": 5}, "dimensions must be at most 4"),
    ],
)
async def test_what_the_model_cannot_do_is_refused(body: dict[str, Any], sentence: str) -> None:
    one = desk()
    answer = await one.post(**body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert sentence in answer.json()["error"]["message"]
    assert not one.embedder.requests


async def test_a_model_without_instructions_says_so() -> None:
    answer = await desk(instructs=False).post(input="ab", instruction="find")
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        400,
        "org/vectors reads no instruction; leave it out",
    )


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (QueueFull("the embedding queue is full"), 429, "resource_admission"),
        (EngineUnavailable("gone"), 502, "engine_unavailable"),
        (GenerationFailed("poison"), 500, None),
    ],
)
async def test_the_embedders_errors_keep_their_status(error: Exception, status: int, kind: str | None) -> None:
    one = desk()
    one.embedder.error = error
    answer = await one.post(input="ab")
    assert (answer.status_code, answer.json()["error"].get("type")) == (status, kind)


async def test_a_client_that_leaves_gives_its_request_up() -> None:
    one = desk()
    one.embedder.hold = asyncio.Event()
    call = Call(one.app, URL, json.dumps({"input": "ab"}).encode())
    await one.embedder.entered.wait()
    call.leave()
    await call.task
    assert one.embedder.cancelled == 1
    assert one.context.gate.statistics().gone == 1
    assert one.context.gate.statistics().open_requests == 0
    assert call.status is None


async def test_a_server_without_an_embedding_model_says_what_is_missing() -> None:
    house = build()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=house.app), base_url="http://localhost") as client:
        answer = await client.post(URL, json={"input": "hi"})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert "org/tiny is no embedding model" in answer.json()["error"]["message"]


async def test_a_draining_server_takes_no_texts() -> None:
    one = desk()
    one.context.gate.close()
    assert (await one.post(input="ab")).status_code == 503


GENERATING = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
]


@pytest.mark.parametrize("path", GENERATING)
async def test_a_model_that_only_embeds_generates_nothing(path: str) -> None:
    one = desk(generates=False)
    body = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "input": "hi", "max_tokens": 5}
    async with one.client() as client:
        answer = await client.post(path, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("org/vectors is an embedding model and does not generate text")


async def test_models_tell_which_of_them_embeds() -> None:
    async with desk().client() as client:
        both = (await client.get("/v1/models")).json()["data"]
        found = (await client.get("/v1/models/org/vectors")).json()["data"]
    assert [(row["id"], row["embeddings"], row["capabilities"]["embeddings"]) for row in both] == [
        ("org/tiny", False, False),
        ("org/vectors", True, True),
    ]
    assert found == [both[1]]
    async with desk(generates=False).client() as client:
        (row,) = (await client.get("/v1/models")).json()["data"]
    assert (row["id"], row["embeddings"]) == ("org/vectors", True)
    assert not row["capabilities"]["chat_completions"]


async def test_the_health_of_a_server_that_only_embeds_is_its_embedders() -> None:
    one = desk(generates=False)
    async with one.client() as client:
        assert (await client.get("/health")).status_code == 200
        one.embedder.error = EngineUnavailable("gone")
        assert (await client.get("/health")).status_code == 503


async def test_figures_are_shown_of_the_actors_there_are() -> None:
    async with desk().client() as client:
        assert (await client.get("/stats")).json()["troupe"]["embedder"]["open_requests"] == 0
        both = (await client.get("/metrics")).text
    assert "troupe_embedder_finished_requests_total 0.0" in both
    assert "troupe_scheduler_up 1.0" in both
    async with desk(generates=False).client() as client:
        alone = (await client.get("/metrics")).text
    assert "troupe_embedder_up 1.0" in alone
    assert "troupe_scheduler" not in alone
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=build().app), base_url="http://localhost") as client:
        assert (await client.get("/stats")).json()["troupe"]["embedder"] is None
        assert "troupe_embedder" not in (await client.get("/metrics")).text


async def test_an_embedder_that_is_silent_is_shown_as_down() -> None:
    one = desk()
    one.embedder.error = EngineUnavailable("gone")
    async with one.client() as client:
        assert (await client.get("/stats")).json()["troupe"]["embedder"] is None
        assert "troupe_embedder_up 0.0" in (await client.get("/metrics")).text


async def test_nobody_waits_for_a_large_answer_to_be_written() -> None:
    one = desk()
    seen: list[int] = []

    async def tick() -> None:
        while True:
            seen.append(1)
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    one.embedder.hold = asyncio.Event()
    call = Call(one.app, URL, json.dumps({"input": ["a"] * 500}).encode())
    await one.embedder.entered.wait()
    await turns(3)
    before = len(seen)
    one.embedder.hold.set()
    await call.task
    ticking.cancel()
    assert call.status == 200
    assert len(json.loads(call.body)["data"]) == 500
    assert len(seen) - before >= 15
