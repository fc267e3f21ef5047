"""The `logprobs` object of both completion routes."""

from __future__ import annotations

from typing import Any

import pytest

from routes.logprobs import logprobs_block
from tests.routes.harness import END, House, build, byte_tokenizer, events
from tests.routes.reading import TEXT, hermes, post, tool
from tests.routes.scripted_generation import score
from tests.routes.templates import OPENED

PATHS = ["/v1/chat/completions", TEXT]


def own(server: House, *tokens: int) -> list[dict[str, Any]]:
    """The entries of tokens where no likeliest ones are asked for."""
    return [{"id": token, "logprob": -token / 1024} for token in tokens]


def ranked(server: House, top: int, *tokens: int) -> list[dict[str, Any]]:
    """The entries of tokens with the likeliest ones."""
    entries = []
    for token in tokens:
        listed = [
            {"id": other, "token": server.context.tokenizer.piece(other), "logprob": value}
            for other, value in score(token, top).top
        ]
        entries.append({**listed[0], "top_logprobs": listed})
    return entries


@pytest.mark.parametrize("path", PATHS)
async def test_logprobs_alone_give_each_token_its_own(path: str) -> None:
    server = build()
    server.says("h", "i")
    (choice,) = (await post(server, path, logprobs=True)).json()["choices"]
    h, i = server.context.tokenizer.encode("hi")
    assert choice["logprobs"] == {"content": own(server, h, i, END)}
    assert server.row.top_logprobs == 0


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("fields", [{"top_logprobs": 2}, {"top_logprobs": 2, "logprobs": True}])
async def test_top_logprobs_give_the_likeliest_and_win(path: str, fields: dict[str, object]) -> None:
    server = build()
    server.says("hi", finish="length")
    (choice,) = (await post(server, path, **fields)).json()["choices"]
    assert choice["logprobs"] == {"content": ranked(server, 2, *server.context.tokenizer.encode("hi"))}
    assert server.row.top_logprobs == 2


def test_the_block_is_the_specs_letter_by_letter() -> None:
    scored = [(9906, score(9906, 2))]
    piece = {9906: "▁Hello", 9907: "▁Hi"}.__getitem__
    first = {"id": 9906, "token": "▁Hello", "logprob": -9906 / 1024}
    second = {"id": 9907, "token": "▁Hi", "logprob": -10906 / 1024}
    assert logprobs_block(scored, 2, piece) == {"content": [{**first, "top_logprobs": [first, second]}]}
    assert logprobs_block(scored, 0, piece) == {"content": [{"id": 9906, "logprob": -9906 / 1024}]}
    assert logprobs_block([], 0, piece) == logprobs_block([], 3, piece) == {"content": []}


async def test_pieces_are_the_vocabularys_own_spelling() -> None:
    server = build()
    server.says(" é", finish="length")
    (choice,) = (await post(server, top_logprobs=1)).json()["choices"]
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == ["Ġ", "Ã", "©"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "fields", [{}, {"logprobs": False}, {"logprobs": None, "top_logprobs": None}, {"top_logprobs": -1}]
)
async def test_nobody_gets_what_nobody_asked_for(path: str, fields: dict[str, object]) -> None:
    server = build()
    server.says("hi")
    (choice,) = (await post(server, path, **fields)).json()["choices"]
    assert "logprobs" not in choice
    assert server.row.top_logprobs is None


async def test_an_unset_or_zero_top_leaves_logprobs_to_itself() -> None:
    for top in (-1, 0, None):
        server = build()
        server.says("h", finish="length")
        (choice,) = (await post(server, logprobs=True, top_logprobs=top)).json()["choices"]
        assert choice["logprobs"] == {"content": own(server, *server.context.tokenizer.encode("h"))}


async def test_a_top_of_zero_alone_asks_for_nothing() -> None:
    server = build()
    server.says("h")
    await post(server, top_logprobs=0)
    assert server.row.top_logprobs is None


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_never_carries_them(path: str) -> None:
    server = build()
    server.says("hi")
    response = await post(server, path, stream=True, logprobs=True, top_logprobs=3)
    assert events(response.text)[-1]["choices"][0]["finish_reason"] == "stop"
    assert "logprob" not in response.text


async def test_thinking_and_markup_count_too() -> None:
    server = build(tokenizer=byte_tokenizer(OPENED))
    text = f"Hm.</think>{hermes('clock')}"
    server.says(text)
    (choice,) = (await post(server, logprobs=True, tools=[tool("clock")])).json()["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "clock"
    assert choice["logprobs"] == {"content": own(server, *server.context.tokenizer.encode(text), END)}


async def test_a_stop_string_cuts_them_after_its_own_last_token() -> None:
    server = build()
    server.says("ab", "cSTOPdef")
    answer = (await post(server, logprobs=True, stop="STOP")).json()
    assert answer["choices"][0]["logprobs"] == {"content": own(server, *server.context.tokenizer.encode("abcSTOP"))}
    assert answer["usage"]["completion_tokens"] == 7


async def test_there_is_one_entry_a_counted_token_for_every_choice() -> None:
    server = build()
    server.says_each(["a", "STOP", "x"], ["bcd", "e"])
    answer = (await post(server, logprobs=True, stop="STOP", n=2)).json()
    encode = server.context.tokenizer.encode
    assert [choice["logprobs"] for choice in answer["choices"]] == [
        {"content": own(server, *encode("aSTOP"))},
        {"content": own(server, *encode("bcde"), END)},
    ]
    assert answer["usage"]["completion_tokens"] == 10


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"logprobs": 5}, "logprobs must be of type bool"),
        ({"logprobs": "yes"}, "logprobs must be of type bool"),
        ({"top_logprobs": "5"}, "top_logprobs must be of type int"),
        ({"top_logprobs": 5.0}, "top_logprobs must be of type int"),
        ({"top_logprobs": True}, "top_logprobs must be of type int"),
        ({"top_logprobs": -2}, "top_logprobs must be at least 0"),
        ({"top_logprobs": 12}, "top_logprobs must be at most 11"),
    ],
)
@pytest.mark.parametrize("path", PATHS)
async def test_wrong_values_are_refused_in_these_words(path: str, fields: dict[str, object], message: str) -> None:
    response = await post(build(), path, **fields)
    assert (response.status_code, response.json()) == (
        400,
        {"error": {"message": message, "type": "invalid_request_error"}},
    )
