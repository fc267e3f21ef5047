"""Whatever the description allows, and much that it forbids, sent to a running company: nothing makes it fail."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import APIOperation, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from routes.door import Door
from routes.openapi.document import document
from tests.routes.harness import build
from tests.support import embedders
from tests.support.company import Company, run_company

Operation = APIOperation[Any, Any, Any, Any]
KEY = "key"
HEADERS = {"authorization": f"Bearer {KEY}"}
PATIENCE_S = 60.0
EXAMPLES = int(os.environ.get("TROUPE_HUNT", 8))
"""Requests an operation and kind; TROUPE_HUNT sets how many, and draws them at random."""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def operations() -> Iterator[Operation]:
    doors = [route for route in build().app.routes if isinstance(route, Door)]
    schema = schemathesis.openapi.from_dict(document(doors, "0", keyed=False))
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        yield result.ok()


EVERY = list(operations())
READING = [operation for operation in EVERY if operation.body or operation.query]
"""Those that take something, which may be wrong."""


def each(listed: list[Operation]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("operation", listed, ids=lambda operation: operation.label)


@pytest.fixture(scope="module")
def company(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    """A chat model, an embedding model, and a hub that nobody answers for."""
    with pytest.MonkeyPatch.context() as patch:
        nobody, cache = "http://127.0.0.1:9", str(tmp_path_factory.mktemp("hub"))
        for name, value in {"HF_ENDPOINT": nobody, "HF_HUB_CACHE": cache, "HF_HUB_DISABLE_TELEMETRY": "1"}.items():
            patch.setenv(name, value)
        patch.setattr("huggingface_hub.constants.ENDPOINT", nobody)
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", cache)
        arguments = {
            "model": str(tiny("llama")),
            "server": {"api_keys": [{"name": "all", "key": KEY, "scopes": ["inference", "admin"]}]},
            "embeddings": {"model": str(embedders.tiny_qwen3(tmp_path_factory.mktemp("vectors")))},
            "generation": {"max_tokens": 4, "context_tokens": 128, "grammar": {"compile_timeout_s": 1.0}},
        }
        with run_company(arguments) as company:
            yield company


def bombard(company: Company, operation: Operation, mode: GenerationMode, checks: list[Any]) -> int:
    """Send generated requests and check each answer. Returns how many were sent."""
    sent = 0

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="TROUPE_HUNT" not in os.environ,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    def once(case: Any) -> None:
        nonlocal sent
        sent += 1
        response = case.call(base_url=company.url, headers=HEADERS, timeout=PATIENCE_S)
        case.validate_response(response, checks=checks, headers=HEADERS)

    once()
    return sent


@each(EVERY)
def test_what_is_described_is_answered(company: Company, operation: Operation) -> None:
    assert bombard(company, operation, GenerationMode.POSITIVE, CHECKS) > 0


@each(READING)
def test_what_is_not_described_is_refused(company: Company, operation: Operation) -> None:
    assert bombard(company, operation, GenerationMode.NEGATIVE, [*CHECKS, negative_data_rejection]) > 0


def test_the_company_still_answers(company: Company) -> None:
    with httpx.Client(base_url=company.url, headers=HEADERS, timeout=PATIENCE_S) as client:
        answer = client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "hi"}]})
        assert answer.status_code == 200, answer.text
        served = client.get("/openapi.json").json()
        assert client.get("/health").status_code == 200
    described = {f"{method.upper()} {path}" for path, methods in served["paths"].items() for method in methods}
    assert described == {operation.label for operation in EVERY}
    assert json.dumps(served)
