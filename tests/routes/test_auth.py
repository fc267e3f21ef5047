import pytest

from tests.routes.harness import build, connect

PATHS = ["/v1", "/v1/models", "/stats", "/metrics", "/nope", "/health/"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "key"},
        {"authorization": "Basic key"},
        {"x-api-key": "ke"},
        {"x-api-key": ""},
        {"authorization": "Bearer k\u00e9y"},
    ],
)
async def test_without_the_key_every_path_but_health_is_closed(path: str, headers: dict[str, str]) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    async with connect(build({"server": {"api_key": "key"}})) as client:
        response = await client.get(path, headers=raw)
    assert response.status_code == 401
    assert response.json()["error"] == {
        "message": "a valid API key is required",
        "type": "invalid_request_error",
        "code": "invalid_api_key",
    }
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "headers", [{"authorization": "Bearer key"}, {"authorization": "bearer  key"}, {"x-api-key": "key"}]
)
async def test_the_key_opens_in_either_header(headers: dict[str, str]) -> None:
    async with connect(build({"server": {"api_key": "key"}})) as client:
        assert (await client.get("/v1/models", headers=headers)).status_code == 200


async def test_health_is_open() -> None:
    async with connect(build({"server": {"api_key": "key"}})) as client:
        assert (await client.get("/health")).status_code == 200


async def test_a_key_may_hold_any_character() -> None:
    async with connect(build({"server": {"api_key": "schlüssel"}})) as client:
        response = await client.get("/v1", headers=[(b"x-api-key", "schlüssel".encode())])
    assert response.status_code == 200
