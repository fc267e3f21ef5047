"""The official client library, on the server of the test that asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from tests.routes.harness import House


@pytest.fixture
async def sdk(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    """Speaks to the `house` of the test's own file, without a socket; `key` opens those that want one."""
    client: Any = httpx.AsyncClient(transport=httpx.ASGITransport(app=house.app))
    async with openai.AsyncOpenAI(
        base_url="http://localhost/v1", api_key="key", http_client=client, max_retries=0
    ) as library:
        yield library
