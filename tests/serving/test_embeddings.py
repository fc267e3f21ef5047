"""Embeddings on Ray: beside the starter, and alone."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np
import pytest

from tests.support import embedders
from tests.support.server import run_server
from tests.support.talk import chat_body, statistics, streaming
from tests.support.waiting import eventually

URL = "/v1/embeddings"
BATCH = ["The sea is wide and the ships are small. " * 12] * 300


async def embedder(http: httpx.AsyncClient) -> dict[str, object]:
    figures = (await statistics(http))["embedder"]
    assert figures is not None, "the embedder does not answer"
    return figures


async def test_embeddings_beside_the_starter_keep_a_chat_moving_and_end_with_their_client() -> None:
    with run_server({"embeddings": {"model": str(embedders.minilm())}}) as server:
        with server.client() as client:
            answer = client.embeddings.create(
                model="any", input=["the cat sat on the mat", "a kitten", "the bank failed"]
            )
            assert answer.model == embedders.MINILM
            cat, kitten, bank = np.array([entry.embedding for entry in answer.data])
            assert cat @ kitten > cat @ bank
            assert [model.id for model in client.models.list()] == ["SmolLM2-135M-Instruct", embedders.MINILM]
        async with server.http() as http:
            batch = asyncio.ensure_future(http.post(URL, json={"input": BATCH}))
            await eventually(lambda: _has(http, "waiting_texts"))
            async with streaming(http, "Tell me about the sea.", max_tokens=12) as stream:
                assert await stream.read()
                assert stream.finish in ("length", "stop")
            assert not batch.done(), "the chat should not have waited for all of the texts"
            batch.cancel()
            await asyncio.wait([batch])
            await eventually(lambda: _gone(http))
            assert (await embedder(http))["cancelled_requests"] == 1

        # A death: the open request is told, the next one finds a new embedder.
        async with server.http() as http:
            batch = asyncio.ensure_future(http.post(URL, json={"input": BATCH}))
            await eventually(lambda: _has(http, "waiting_texts"))
            server.actor("Embedder").kill()
            refused = await batch
            assert (refused.status_code, refused.json()["error"]["type"]) == (502, "engine_unavailable")
            again = await http.post(URL, json={"input": "again"})
            assert again.status_code == 200, again.text


async def _has(http: httpx.AsyncClient, figure: str) -> bool:
    return bool((await embedder(http))[figure])


async def _gone(http: httpx.AsyncClient) -> bool:
    return (await embedder(http))["open_requests"] == 0


@pytest.mark.parametrize("launcher", ["serve", "troupe"])
async def test_an_embedding_model_alone_starts_no_scheduler(launcher: str) -> None:
    with run_server({"model": str(embedders.minilm())}, launcher=launcher) as server:
        assert f"serves {embedders.MINILM}" in server.log
        async with server.http() as http:
            assert (await http.get("/health")).status_code == 200
            answer = await http.post(URL, json={"input": "hello", "encoding_format": "float"})
            assert np.linalg.norm(answer.json()["data"][0]["embedding"]) == pytest.approx(1, abs=1e-5)
            refused = await http.post("/v1/chat/completions", json=chat_body("hi"))
            assert refused.status_code == 400
            assert "embedding model" in refused.json()["error"]["message"]
            figures = await statistics(http)
            assert figures["scheduler"] is None
        assert not server.actors("GenerationScheduler")
        assert not server.actors("PromptCacheManager")
        if launcher == "troupe":
            async with server.http() as http:
                batch = asyncio.ensure_future(http.post(URL, json={"input": BATCH[:20]}))
                await eventually(lambda: _has(http, "open_requests"))
                server.process.terminate()
                assert (await batch).status_code == 200, "a stop waits for open requests"
            assert await asyncio.to_thread(server.process.wait, 60) == 0
