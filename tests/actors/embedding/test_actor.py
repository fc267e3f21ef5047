"""The embedder behind HTTP, with real models, the real lease, and the official client; without Ray."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from tests.support import checkpoints, embedders
from tests.support.company import Company, run_company
from tests.support.waiting import eventually

URL = "/v1/embeddings"


@pytest.fixture(scope="module")
def minilm() -> Iterator[Company]:
    """MiniLM alone, with a line of three."""
    with run_company({"model": str(embedders.minilm()), "embeddings": {"queue": 3, "stall_s": 0.05}}) as company:
        yield company


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    """A tiny Qwen3 that embeds, beside a tiny chat model."""
    chat = checkpoints.tiny_llama(tmp_path_factory.mktemp("chat") / "chat")
    vectors = embedders.tiny_qwen3(tmp_path_factory.mktemp("vectors") / "vectors", tokens=1024)
    with run_company({"model": str(chat), "embeddings": {"model": str(vectors)}}) as company:
        yield company


def embedder(company: Company) -> dict[str, Any]:
    return httpx.get(f"{company.url}/stats").json()["troupe"]["embedder"]


async def until(company: Company, **wanted: int) -> None:
    async def settled() -> bool:
        figures = embedder(company)
        return all(figures[name] == value for name, value in wanted.items())

    await eventually(settled)


def vectors(answer: openai.types.CreateEmbeddingResponse) -> Any:
    return np.array([entry.embedding for entry in answer.data])


def test_the_official_client_gets_the_same_vectors_in_both_encodings(minilm: Company) -> None:
    texts = ["the cat sat on the mat", "a kitten by the window", "the stock market fell"]
    with minilm.client() as client:
        packed = client.embeddings.create(model="any", input=texts)
        plain = client.embeddings.create(model="any", input=texts, encoding_format="float")
    found = vectors(packed)
    # Not equal to the bit: what is computed together differs from request to request.
    np.testing.assert_allclose(found, vectors(plain), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert found[0] @ found[1] > found[0] @ found[2]
    assert packed.usage.prompt_tokens == packed.usage.total_tokens == 8 + 7 + 6
    assert packed.model == embedders.MINILM


def test_many_texts_equal_each_one_alone(minilm: Company) -> None:
    texts = [f"{'word ' * (place % 7)}number {place}" for place in range(40)]
    with minilm.client() as client:
        together = vectors(client.embeddings.create(model="any", input=texts))
        for place in (0, 6, 13, 39):
            alone = vectors(client.embeddings.create(model="any", input=texts[place]))[0]
            np.testing.assert_allclose(alone, together[place], atol=1e-5)


def test_fewer_dimensions_are_the_first_ones_at_length_1(minilm: Company) -> None:
    with minilm.client() as client:
        whole = vectors(client.embeddings.create(model="any", input="hello"))[0]
        short = vectors(client.embeddings.create(model="any", input="hello", dimensions=100))[0]
    np.testing.assert_allclose(short, whole[:100] / np.linalg.norm(whole[:100]), atol=1e-6)


def test_tokens_of_a_text_give_the_vector_of_the_text(minilm: Company) -> None:
    with minilm.client() as client:
        text = vectors(client.embeddings.create(model="any", input="Hello, world!"))
        tokens = vectors(client.embeddings.create(model="any", input=[[101, 7592, 1010, 2088, 999, 102]]))
    np.testing.assert_allclose(text, tokens, atol=1e-6)


POISON: list[Any] = [
    {"input": [2**31]},
    {"input": [30522]},
    {"input": [[0], [2**63]]},
    {"input": "x", "dimensions": 385},
    {"input": "word " * 300},
    {"input": [0] * 257},
    {"input": "hi", "instruction": "find"},
    {"input": [[]]},
    {"input": [{}]},
]


@pytest.mark.parametrize("body", POISON)
def test_poison_is_refused_and_the_next_text_is_embedded(minilm: Company, body: dict[str, Any]) -> None:
    refused = httpx.post(minilm.url + URL, json=body)
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["type"] == "invalid_request_error"
    assert httpx.post(minilm.url + URL, json={"input": "fine"}).status_code == 200


@pytest.mark.parametrize("text", ["\0", "\ud800", "😀" * 50, "\u202e\u0301" * 20, " ", "a" * 5000])
def test_odd_texts_are_embedded(minilm: Company, text: str) -> None:
    answer = httpx.post(
        minilm.url + URL,
        content=b'{"input":' + json.dumps(text).encode() + b"}",
        headers={"content-type": "application/json"},
    )
    if "\ud800" in text:
        assert answer.status_code == 400
    else:
        assert answer.status_code == 200, answer.text
        assert np.isfinite(answer.json()["data"][0]["embedding"]).all()


async def test_one_request_too_many_is_told_to_come_again(minilm: Company) -> None:
    texts = ["word " * 200] * 1500
    async with minilm.async_client() as client:
        running = [asyncio.ensure_future(client.embeddings.create(model="any", input=texts)) for _ in range(3)]
        await until(minilm, open_requests=3)
        with pytest.raises(openai.RateLimitError) as refused:
            await client.embeddings.create(model="any", input="one more")
        assert refused.value.code == "queue_full"
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        await until(minilm, open_requests=0, waiting_texts=0)
        assert len(vectors(await client.embeddings.create(model="any", input="again"))) == 1


async def test_a_short_text_does_not_wait_for_all_of_a_large_request(minilm: Company) -> None:
    async with minilm.async_client() as client:
        large = asyncio.ensure_future(client.embeddings.create(model="any", input=["word " * 200] * 1500))
        await until(minilm, open_requests=1)
        await client.embeddings.create(model="any", input="short")
        assert not large.done()
        large.cancel()
        await asyncio.wait([large])
        await until(minilm, open_requests=0, waiting_texts=0)


def test_weights_are_loaded_by_the_first_request_and_booked(beside: Company) -> None:
    assert not embedder(beside)["loaded"]
    before = httpx.get(f"{beside.url}/stats").json()["troupe"]["lease"]["reserved_bytes"]
    with beside.client() as client:
        first = client.embeddings.create(model="any", input=["a", "bc"])
    assert first.model == "vectors"
    figures = embedder(beside)
    assert figures["loaded"]
    after = httpx.get(f"{beside.url}/stats").json()["troupe"]["lease"]
    assert after["reserved_bytes"] - before == figures["weight_bytes"] > 0
    assert after["classes"]["embeddings"]["grants"] > 0


def test_an_instruction_changes_the_vector_as_its_text_does(beside: Company) -> None:
    with beside.client() as client:
        plain = vectors(client.embeddings.create(model="any", input="cats"))
        led = vectors(client.embeddings.create(model="any", input="cats", extra_body={"instruction": "find"}))
        spelled = vectors(client.embeddings.create(model="any", input="Instruct: find\nQuery:cats"))
    np.testing.assert_allclose(led, spelled, atol=1e-6)
    assert np.abs(led - plain).max() > 0.01


async def test_a_chat_goes_on_beside_long_texts(beside: Company) -> None:
    async with beside.async_client() as client:
        embedding = asyncio.ensure_future(client.embeddings.create(model="any", input=["y" * 300] * 100))
        await until(beside, open_requests=1)
        answer = await client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "hi"}], max_tokens=10, temperature=0
        )
        assert answer.choices[0].message.content
        assert not embedding.done(), "the chat should not have waited for all of the texts"
        assert len((await embedding).data) == 100


def test_weights_that_do_not_fit_the_budget_refuse_requests_in_words(tmp_path: Path) -> None:
    chat = checkpoints.tiny_llama(tmp_path / "chat")
    vectors_folder = embedders.tiny_qwen3(tmp_path / "vectors")
    arguments = {
        "model": str(chat),
        "embeddings": {"model": str(vectors_folder)},
        "gpu_lease": {"memory_budget": (chat / "model.safetensors").stat().st_size + 1000},
    }
    with run_company(arguments) as company:
        refused = httpx.post(company.url + URL, json={"input": "hi"})
        assert refused.status_code == 502
        assert "vectors does not fit" in refused.json()["error"]["message"]
        assert httpx.post(company.url + URL, json={"input": "hi"}).status_code == 502, "asked anew, refused anew"
        chat_body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        assert httpx.post(f"{company.url}/v1/chat/completions", json=chat_body).status_code == 200


def test_a_company_ends_while_texts_are_computed(tmp_path: Path) -> None:
    with run_company({"model": str(embedders.tiny_qwen3(tmp_path / "vectors", tokens=1024))}) as company:
        answers: list[int] = []

        def ask() -> None:
            answers.append(httpx.post(company.url + URL, json={"input": ["z" * 300] * 20}, timeout=60).status_code)

        asking = threading.Thread(target=ask)
        asking.start()
        asyncio.run(until(company, open_requests=1))
    asking.join(60)
    assert answers == [200], "an open request is answered before the server ends"
