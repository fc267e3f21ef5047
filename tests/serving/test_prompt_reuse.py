"""What is computed once is not computed again: over HTTP, for every kind of cache, with the answers of cold starts."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

import httpx
import jinja2
import pytest

from tests.conftest import KINDS
from tests.routes.templates import STRIPPING
from tests.support.checkpoints import byte_tokenizer
from tests.support.company import Company, run_company
from tests.support.waiting import wait_until

UNCUTTABLE = ["hybrid", "convolution", "mamba", "sliding"]
EVERY_KIND = ["llama", *UNCUTTABLE]
PATIENCE_S = 240.0
Conversation = list[dict[str, str]]


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def rendered(messages: Conversation) -> str:
    """What a model with the template `STRIPPING` reads; each byte is a token."""
    return jinja2.Template(STRIPPING).render(messages=messages, add_generation_prompt=True)


def sentence(seed: int, words: int) -> str:
    source = random.Random(seed)
    return " ".join("".join(source.choices("abcdefghij", k=4)) for _ in range(words))


@dataclass
class Answer:
    text: str
    prompt: int
    cached: int


@dataclass
class Client:
    """Talks to a company."""

    company: Company
    http: httpx.Client
    salts: count[int] = field(default_factory=count)

    def ask(self, messages: Conversation, **options: Any) -> Answer:
        body = {"messages": messages, "temperature": 0, "max_tokens": 6, **options}
        response = self.http.post("/v1/chat/completions", json=body)
        assert response.status_code == 200, response.text
        reply = response.json()
        choice, usage = reply["choices"][0], reply["usage"]
        message = choice["message"]
        text = (message.get("reasoning") or "") + (message["content"] or "")
        return Answer(text, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"])

    def text(self, prompt: str, **options: Any) -> Answer:
        body = {"prompt": prompt, "temperature": 0, "max_tokens": 1, **options}
        reply = self.http.post("/v1/completions", json=body).json()
        usage = reply["usage"]
        text = reply["choices"][0]["text"]
        return Answer(text, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"])

    def cold(self, messages: Conversation, **options: Any) -> Answer:
        """The same from nothing: a partition of its own has nothing in it."""
        answer = self.ask(messages, **options, cache_salt=f"cold {next(self.salts)}")
        assert answer.cached == 0
        return answer

    def stats(self) -> dict[str, Any]:
        return self.http.get("/stats").json()

    def scheduler(self, figure: str) -> int:
        return self.stats()["troupe"]["scheduler"][figure]


@contextmanager
def client(model: str, **settings: Any) -> Iterator[Client]:
    with (
        run_company({"model": model, **settings}) as company,
        httpx.Client(base_url=company.url, timeout=PATIENCE_S) as http,
    ):
        yield Client(company, http)


@pytest.fixture(scope="module")
def stripping(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A tiny checkpoint of a kind whose template takes thinking out of turns that are over."""

    def make(kind: str) -> str:
        folder = KINDS[kind](tmp_path_factory.mktemp(kind) / "model")
        tokenizer = byte_tokenizer()
        tokenizer.chat_template = STRIPPING
        tokenizer.save_pretrained(str(folder))
        return str(folder)

    return make


Stripping = Callable[[str], str]
Of = Callable[[str], Client]


@pytest.fixture(scope="module")
def of(stripping: Stripping) -> Iterator[Of]:
    """A client of a model of a kind. One serves all tests: their prompts begin differently."""
    with ExitStack() as stack:
        running: dict[str, Client] = {}

        def get(kind: str) -> Client:
            if kind not in running:
                settings = {"prompt_cache": {"boundary_tokens": 128}}
                running[kind] = stack.enter_context(client(stripping(kind), **settings))
            return running[kind]

        yield get


def shared(before: Conversation, after: Conversation) -> int:
    """Tokens that two prompts have in common."""
    pairs = enumerate(zip(rendered(before), rendered(after), strict=False))
    return next(at for at, (one, other) in pairs if one != other)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_turn_computes_only_what_the_template_made_new(of: Of, kind: str) -> None:
    one = of(kind)
    messages = [said("system", sentence(1, 20)), said("user", sentence(2, 20))]
    one.ask(messages)
    for turn in range(4):
        thought = f"<think>\n{sentence(turn, 10)}\n</think>\n\n"
        longer = [*messages, said("assistant", thought + sentence(turn + 10, 8)), said("user", sentence(turn, 9))]
        answer = one.ask(longer)
        assert answer.prompt == len(rendered(longer))
        assert shared(messages, longer) - 1 <= answer.cached <= shared(messages, longer)
        assert answer.text == one.cold(longer).text
        messages = longer


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_an_answer_that_comes_back_as_it_was_is_not_computed_again(of: Of, kind: str) -> None:
    one, prompt = of(kind), sentence(3, 30)
    plain = {str(token): -100 for token in (256, *range(128, 256))}
    body = {"temperature": 0, "max_tokens": 12, "logit_bias": plain}
    said = one.text(prompt, **body).text
    again = one.text(prompt + said + sentence(4, 10), **body)
    assert again.cached == len(prompt) + len(said) - 1


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_stamp_in_the_system_prompt_costs_what_follows_it(of: Of, kind: str) -> None:
    def stamped(stamp: str) -> Conversation:
        system = f"{sentence(5, 40)} It is {stamp}. {sentence(6, 10)}"
        return [said("system", system), said("user", sentence(7, 5))]

    one = of(kind)
    first, second, third = (stamped(stamp) for stamp in ("Monday", "Tuesday", "Wednesday"))
    one.ask(first)
    one.ask(second)
    answer = one.ask(third)
    assert shared(second, third) - 16 <= answer.cached <= shared(second, third)
    assert answer.text == one.cold(third).text


@pytest.mark.parametrize("kind", UNCUTTABLE)
def test_an_edit_in_a_long_prompt_costs_one_distance_of_boundaries(of: Of, kind: str) -> None:
    one = of(kind)
    before, after = ([said("user", f"{sentence(8, 120)} {end}")] for end in ("first end", "second end"))
    one.ask(before)
    answer = one.ask(after)
    assert shared(before, after) - 128 < answer.cached <= shared(before, after)
    assert answer.text == one.cold(after).text


def test_tenants_with_salts_share_nothing(of: Of) -> None:
    messages = [said("user", sentence(9, 30))]
    everything = len(rendered(messages)) - 1

    def cached(salt: str | None) -> int:
        return of("hybrid").ask(messages, cache_salt=salt, session_id="the same").cached

    assert [cached(salt) for salt in ("a", "b", None)] == [0, 0, 0]
    assert [cached(salt) for salt in ("a", "b", None, "c")] == [everything, everything, everything, 0]


def test_a_session_is_continued_searched_for_and_closed(of: Of) -> None:
    one = of("moe")

    def figures() -> tuple[int, int, int]:
        cache = one.stats()["prompt_cache"]
        return cache["session_hits"], cache["session_misses"], cache["prefix_scans"]

    prompt, more = sentence(10, 20), sentence(11, 20)
    one.text(prompt, session_id="agent")
    assert figures() == (0, 1, 1)
    one.text(prompt + more, session_id="agent")
    assert figures() == (1, 1, 1)
    one.text("edited" + prompt, session_id="agent")
    assert figures() == (1, 2, 2)
    assert one.text(prompt + more, session_id="other").cached == len(prompt + more) - 1
    assert one.stats()["troupe"]["prompt_cache"]["sessions"] == 2
    for _ in range(2):
        closed = one.http.post("/admin/cache/session/close", json={"session_id": "agent"})
        assert closed.json() == {"closed": True}
    assert one.stats()["troupe"]["prompt_cache"]["sessions"] == 1


@pytest.mark.parametrize("kind", ["llama", "hybrid"])
def test_a_client_that_leaves_has_not_waited_for_nothing(stripping: Stripping, kind: str) -> None:
    with client(stripping(kind), generation={"prefill_step_tokens": 16}) as one:
        messages = [said("user", sentence(1, 1200))]
        body = json.dumps({"messages": messages}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", one.http.base_url.port or 0)) as leaving:
            leaving.sendall(head.encode() + body)
            wait_until(lambda: one.scheduler("prompt_tokens") >= 160, "the prompt is begun")
        wait_until(lambda: one.scheduler("cancelled_rows") == 1, "the row is cancelled")
        computed = one.scheduler("prompt_tokens")
        answer = one.ask(messages)
        assert 160 <= answer.cached == computed < answer.prompt - 1
        assert answer.text == one.cold(messages).text


def test_a_cache_without_room_answers_all_the_same(stripping: Stripping) -> None:
    messages = [said("user", sentence(1, 30))]
    for max_bytes in (0, 1000, 60_000):
        with client(stripping("hybrid"), prompt_cache={"max_bytes": max_bytes}) as one:
            texts = {one.ask([*messages, said("assistant", "a"), said("user", "b")]).text for _ in range(3)}
            assert len(texts) == 1
            cache = one.stats()["prompt_cache"]
            assert cache["bytes"] <= cache["max_bytes"] == max_bytes


def test_eight_interleaved_conversations_answer_as_they_would_alone() -> None:
    """Of the real model. Each answer is continued, so one wrong token would change all that follows."""

    def converse(number: int) -> list[tuple[Conversation, Answer]]:
        messages = [said("user", f"{['Red', 'Blue', 'One', 'Two', 'Sea', 'Sky', 'Cat', 'Dog'][number]}?")]
        turns: list[tuple[Conversation, Answer]] = []
        for question in ["And?", "Why?", "Who?", "When?", "Where?", ""]:
            answer = one.ask(messages, max_tokens=4, session_id=f"conversation {number}")
            turns.append((messages, answer))
            messages = [*messages, said("assistant", answer.text), said("user", question)]
        return turns

    def check(turn: tuple[Conversation, Answer]) -> None:
        messages, answer = turn
        assert answer.text == one.cold(messages, max_tokens=4).text

    with client("starter") as one, ThreadPoolExecutor(8) as pool:
        conversations = list(pool.map(converse, range(8)))
        for turns in conversations:
            for (_, before), (_, answer) in pairwise(turns):
                assert answer.cached >= before.prompt - 1
        # Not every turn: cold starts take their time, and a wrong token shows in the last prompt.
        list(pool.map(check, [turns[at] for turns in conversations for at in (2, 5)]))
