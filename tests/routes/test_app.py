import pytest

from tests.routes.harness import build, chat, connect

ORIGIN = "https://page.example"
PREFLIGHT = {"origin": ORIGIN, "access-control-request-method": "POST", "access-control-request-headers": "x-api-key"}


@pytest.mark.parametrize("path", ["/", "/nope", "/v2/models", "/v1/", "/health/", "/v1/chat", "/v1/completions/x"])
async def test_an_unknown_path_is_a_404_in_the_protocols_shape(path: str) -> None:
    async with connect(build()) as client:
        response = await client.get(path)
    assert (response.status_code, response.text) == (404, '{"error":{"message":"not found"}}')


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/chat/completions"), ("DELETE", "/v1/completions"), ("POST", "/health"), ("PUT", "/v1/models")],
)
async def test_a_wrong_method_is_a_405_that_names_the_right_ones(method: str, path: str) -> None:
    async with connect(build()) as client:
        response = await client.request(method, path)
    assert (response.status_code, response.json()) == (405, {"error": {"message": "method not allowed"}})
    assert response.headers["allow"]


async def test_no_page_may_call_a_server_that_lists_no_origins() -> None:
    async with connect(build()) as client:
        preflight = await client.options("/v1/chat/completions", headers=PREFLIGHT)
        answer = await client.get("/health", headers={"origin": ORIGIN})
    assert preflight.status_code == 405
    assert "access-control-allow-origin" not in preflight.headers
    assert "access-control-allow-origin" not in answer.headers


async def test_a_listed_origin_may_call_and_read_errors() -> None:
    house = build({"server": {"cors_origins": [ORIGIN], "api_key": "key"}})
    async with connect(house) as client:
        preflight = await client.options("/v1/chat/completions", headers=PREFLIGHT)
        refused = await client.post("/v1/chat/completions", json=chat(), headers={"origin": ORIGIN})
        stranger = await client.get("/health", headers={"origin": "https://other.example"})
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == ORIGIN
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == ORIGIN
    assert "access-control-allow-origin" not in stranger.headers
