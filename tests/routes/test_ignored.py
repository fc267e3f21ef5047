"""Fields that cannot matter, in every shape that clients send them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.routes.harness import build, events
from tests.routes.reading import CHAT, TEXT, post

OPTIONS: list[object] = [
    None,
    {},
    {"include_usage": True},
    {"include_usage": False},
    {"include_usage": None},
    {"include_usage": "yes", "include_obfuscation": True},
    [],
    "usage",
    5,
    True,
]


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("options", OPTIONS)
async def test_usage_is_on_the_last_chunk_whatever_the_stream_options_say(path: str, options: object) -> None:
    server = build()
    server.says("a", "b")
    chunks = events((await post(server, path, stream=True, stream_options=options)).text)
    assert ["usage" in chunk for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert all(len(chunk["choices"]) == 1 for chunk in chunks)
    assert (await post(server, path, stream_options=options)).json()["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    "fields",
    [
        {"user": "u-1"},
        {"user": 5},
        {"metadata": {"a": "b"}},
        {"metadata": "x"},
        {"store": True},
        {"service_tier": "auto"},
        {"service_tier": None},
        {"safety_identifier": "x", "verbosity": "low", "modalities": ["text"], "prediction": None},
        {"best_of": 4, "echo": True, "suffix": "x"},
        {"no_such_field": [[[]]]},
        {"model": None},
        {"model": "gpt-4o"},
        {"model": ["x"]},
    ],
    ids=lambda fields: ",".join(fields),
)
async def test_a_field_that_cannot_matter_changes_nothing(path: str, fields: dict[str, Any]) -> None:
    server = build()
    server.says("fine")
    plain = (await post(server, path, seed=1)).json()
    other = (await post(server, path, seed=1, **fields)).json()
    first, second = server.generation.submitted
    assert (first.prompt, first.sampling, first.max_tokens) == (second.prompt, second.sampling, second.max_tokens)
    assert (plain["choices"], plain["usage"], plain["model"]) == (other["choices"], other["usage"], other["model"])
