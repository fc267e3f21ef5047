"""One server on the starter for all tests of this folder that do not break it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import openai
import pytest

from tests.support import checkpoints
from tests.support.server import Server, run_server
from tests.support.talk import BAD_TOKEN, KEY, ORIGIN


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with run_server({"logging": {"format": "json"}}) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with server.client() as client:
        yield client


@pytest.fixture
async def http(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with server.http() as http:
        yield http


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A tiny model that chokes on `BAD_TOKEN`, two rows, three places to wait, and a key on the door."""
    arguments = {
        "model": str(checkpoints.failing(tmp_path_factory.mktemp("failing"), BAD_TOKEN)),
        "server": {"api_key": KEY, "cors_origins": [ORIGIN]},
        "generation": {"max_rows": 2, "queue": 3, "context_tokens": None, "trust_model_code": True},
        "logging": {"format": "text"},
    }
    with run_server(arguments) as running:
        yield running


@pytest.fixture
async def visitor(small: Server) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who has the key of `small`."""
    async with small.http(headers={"authorization": f"Bearer {KEY}"}) as http:
        yield http
