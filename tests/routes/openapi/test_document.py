"""GET /openapi.json."""

from __future__ import annotations

from typing import Any

import pytest

from routes.door import Door
from tests.routes.harness import build, connect


async def document(**server: Any) -> Any:
    async with connect(build({"server": server})) as client:
        headers = {"x-api-key": "key"} if server else {}
        response = await client.get("/openapi.json", headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    return response.json()


async def test_every_route_is_described_with_its_methods() -> None:
    paths = (await document())["paths"]
    doors = [route for route in build().app.routes if isinstance(route, Door)]
    expected = {(door.path.replace(":path}", "}"), method.lower()) for door in doors for method in door.operations}
    assert {(path, method) for path, methods in paths.items() for method in methods} == expected
    assert ("/openapi.json", "get") in expected


async def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    found = await document()
    schemas = found["components"]["schemas"]
    assert set(references(found)) == {f"#/components/schemas/{name}" for name in schemas}


def references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [found for child in node for found in references(child)]
    if isinstance(node, dict):
        here = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return here + [found for child in node.values() for found in references(child)]
    return []


async def test_keys_are_described_only_where_there_are_some() -> None:
    plain, keyed = await document(), await document(api_key="key")
    assert "securitySchemes" not in plain["components"]
    assert "security" not in plain["paths"]["/v1/models"]["get"]
    assert set(keyed["components"]["securitySchemes"]) == {"bearer", "x-api-key"}
    assert keyed["paths"]["/v1/models"]["get"]["security"] == [{"bearer": []}, {"x-api-key": []}]
    assert keyed["paths"]["/health"]["get"]["security"] == []
    assert "admin" in keyed["paths"]["/api/gc/execute"]["post"]["description"]


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1/chat/completions", "ErrorAnswer"),
        ("/v1/messages", "MessagesErrorAnswer"),
        ("/v1/responses", "ResponsesErrorAnswer"),
        ("/api/gc/execute", "ApiErrorAnswer"),
    ],
)
async def test_errors_are_described_in_their_protocols_shape(path: str, model: str) -> None:
    answers = (await document())["paths"][path]["post"]["responses"]
    for status in ("4XX", "5XX"):
        schema = answers[status]["content"]["application/json"]["schema"]
        assert schema == {"$ref": f"#/components/schemas/{model}"}
