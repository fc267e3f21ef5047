"""Traces of completion requests, phase by phase."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from tests.support.company import Company, run_company

ALWAYS = {
    "request.body_parse",
    "request.prompt_prepare",
    "completion.total",
    "completion.placement",
    "engine.admission_wait",
    "cache.lookup_restore",
    "prefill.total",
    "prefill.chunk",
    "prefill.kv_maintenance",
    "token_zero.total",
    "token_zero.forward",
    "token_zero.head",
    "token_zero.sample",
    "response.first_write",
    "response.final_write",
}


def traces(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    lines = capfd.readouterr().err.splitlines()
    return [json.loads(line.removeprefix("[p2r] ")) for line in lines if line.startswith("[p2r] ")]


def chat(company: Company, text: str, trace_id: str, **more: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 4, **more}
    headers = {"x-mlx-bun-trace-id": trace_id}
    return httpx.post(f"{company.url}/v1/chat/completions", json=body, headers=headers, timeout=60)


def test_a_trace_has_every_phase_within_its_total(capfd: pytest.CaptureFixture[str]) -> None:
    with run_company({"logging": {"trace": True}}) as company:
        answer = chat(company, "Tell me about the sea. " * 40, "mine").json()
        refused = chat(company, "x", "bad", temperature="hot")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: chat(company, f"{number}: hello", f"t{number}", stream=True), range(4)))
        company.client().completions.create(model="any", prompt="Once", max_tokens=2)
    assert refused.status_code == 400
    found = {record["traceId"]: record for record in traces(capfd)}
    record = found["mine"]
    assert (record["version"], record["clock"], record["outcome"]) == (1, "monotonic-ms", "success")
    assert (record["requestId"], record["route"]) == (answer["id"], "/v1/chat/completions")
    assert {event["phase"] for event in record["events"]} >= ALWAYS
    starts = [event["startMs"] for event in record["events"]]
    assert starts == sorted(starts)
    for event in record["events"]:
        assert event["startMs"] >= 0
        assert event["startMs"] + event["durationMs"] <= record["totalMs"]
    chunks = [event for event in record["events"] if event["phase"] == "prefill.chunk"]
    total = next(event for event in record["events"] if event["phase"] == "prefill.total")
    assert sum(event["attributes"]["tokens"] for event in chunks) == total["attributes"]["tokens"]
    assert total["attributes"]["tokens"] == answer["usage"]["prompt_tokens"] - 1
    assert (found["bad"]["outcome"], found["bad"]["attributes"]) == ("error", {"stage": "body_parse"})
    # Prompts that come together are computed together.
    joint = [event for name in ("t0", "t1", "t2", "t3") for event in found[name]["events"]]
    assert any(event["phase"] == "prefill.batch_setup" for event in joint)
    (text,) = [one for one in found.values() if one["route"] == "/v1/completions"]
    assert text["traceId"] == text["requestId"]


def test_without_the_switch_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    with run_company({}) as company:
        assert chat(company, "hello", "mine").status_code == 200
        with pytest.raises(openai.BadRequestError):
            company.client().completions.create(model="any", prompt="")
    assert traces(capfd) == []
