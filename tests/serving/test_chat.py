"""Chat and text completions on the real starter, through the official SDK."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from tests.support.server import Server

CAPITAL: Any = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."
QUESTIONS = [
    "What is the capital of France?",
    "Name three fruits.",
    "Who wrote Hamlet?",
    "What is two plus two?",
    "Why is the sky blue?",
    "Tell me about the sea.",
    "What do bees make?",
    "Say hello in Spanish.",
]


def ask(client: openai.OpenAI, question: str, **options: Any) -> Any:
    messages = [{"role": "user", "content": question}]
    body: Any = {"model": "any", "messages": messages, "temperature": 0, "max_tokens": 24} | options
    return client.chat.completions.create(**body)


def test_the_starter_answers(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model="any", messages=CAPITAL, temperature=0)
    assert reply.choices[0].message.content == ANSWER
    assert reply.choices[0].finish_reason == "stop"
    assert reply.model == "SmolLM2-135M-Instruct"
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (37, 8)
    assert reply.usage.model_dump()["lane"] == "batched"


def test_a_stream_says_the_same(client: openai.OpenAI) -> None:
    stream: Any = client.chat.completions.create(model="any", messages=CAPITAL, temperature=0, stream=True)
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ANSWER
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.completion_tokens == 8
    assert len([chunk for chunk in chunks if chunk.choices[0].delta.content]) > 1


def test_a_text_completion_continues_the_prompt(client: openai.OpenAI) -> None:
    options: Any = {"model": "any", "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
    whole = client.completions.create(**options)
    pieces = list(client.completions.create(stream=True, **options))
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 12
    assert "".join(piece.choices[0].text for piece in pieces) == whole.choices[0].text != ""


def test_a_repeated_prompt_is_not_computed_again(client: openai.OpenAI) -> None:
    first = ask(client, "Describe an unusual purple elephant.")
    second = ask(client, "Describe an unusual purple elephant.")
    assert second.usage.prompt_tokens_details.cached_tokens == second.usage.prompt_tokens - 1
    assert second.choices[0].message.content == first.choices[0].message.content


def test_one_more_turn_computes_only_what_is_new(client: openai.OpenAI) -> None:
    history: Any = [{"role": "user", "content": "List the months of the year, slowly. " * 20}]
    first = client.chat.completions.create(model="any", messages=history, temperature=0, max_tokens=16)
    history += [first.choices[0].message.model_dump(include={"role", "content"}), {"role": "user", "content": "And?"}]
    second: Any = client.chat.completions.create(model="any", messages=history, temperature=0, max_tokens=4)
    assert first.usage is not None
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens


def test_a_prompt_equal_to_an_earlier_prompt_and_its_output_works(client: openai.OpenAI) -> None:
    prompt = "The quick brown fox jumps over the lazy dog, and then"
    options: Any = {"model": "any", "max_tokens": 8, "temperature": 0}
    first = client.completions.create(prompt=prompt, **options)
    again: Any = client.completions.create(prompt=prompt + first.choices[0].text, **options)
    assert again.usage.completion_tokens == 8
    assert again.usage.prompt_tokens_details.cached_tokens > 8


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_the_answer_and_never_shows(client: openai.OpenAI, stream: bool) -> None:
    # "Paris." is several tokens; the stop starts in the middle of one.
    reply: Any = client.chat.completions.create(
        model="any", messages=CAPITAL, temperature=0, stop=["ance is", "\n"], stream=stream
    )
    if stream:
        chunks = list(reply)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        finish = chunks[-1].choices[0].finish_reason
    else:
        text, finish = reply.choices[0].message.content, reply.choices[0].finish_reason
    assert (text, finish) == ("The capital of Fr", "stop")


def test_max_tokens_is_exact_and_max_completion_tokens_wins(client: openai.OpenAI) -> None:
    reply = ask(client, "Tell me a long story.", max_tokens=50, max_completion_tokens=5)
    assert reply.usage.completion_tokens == 5
    assert reply.choices[0].finish_reason == "length"


def test_the_answer_is_the_same_alone_and_in_company(server: Server, client: openai.OpenAI) -> None:
    alone = [ask(client, question).choices[0].message.content for question in QUESTIONS]
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        together = list(pool.map(lambda question: ask(client, question).choices[0].message.content, QUESTIONS))
    assert together == alone
    assert server.statistics()["scheduler"]["active_rows"] == 0


def test_a_seed_repeats_itself_alone_and_in_company(client: openai.OpenAI) -> None:
    def draw(seed: int) -> str:
        return ask(client, "Invent a name.", temperature=1.2, seed=seed, top_p=0.95).choices[0].message.content

    alone = draw(7)
    with ThreadPoolExecutor(4) as pool:
        beside = [pool.submit(draw, seed) for seed in (7, 8, 9, 10)]
    assert beside[0].result() == alone
    assert len({future.result() for future in beside}) > 1


def test_characters_of_several_tokens_arrive_whole(client: openai.OpenAI) -> None:
    prompt = "Repeat: 🦊日本語é 🦊日本語é 🦊日本語é 🦊日本語é 🦊日本語é"
    options: Any = {"model": "any", "prompt": prompt, "max_tokens": 30, "temperature": 0}
    whole = client.completions.create(**options).choices[0].text
    pieces = [chunk.choices[0].text for chunk in client.completions.create(stream=True, **options)]
    assert "".join(pieces) == whole
    assert "🦊" in whole
    assert not any("\ufffd" in piece for piece in pieces[:-1])


def test_sixty_four_connections_at_once_are_all_served(server: Server) -> None:
    body = {"messages": CAPITAL, "max_tokens": 2, "temperature": 0}
    limits = httpx.Limits(max_connections=64)
    with httpx.Client(timeout=300, limits=limits) as http, ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda _: http.post(f"{server.url}/v1/chat/completions", json=body), range(64)))
    assert [answer.status_code for answer in answers] == [200] * 64
    assert {answer.json()["choices"][0]["message"]["content"] for answer in answers} == {"The capital"}
