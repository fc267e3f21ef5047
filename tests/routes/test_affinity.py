import pytest

from actors.errors import InvalidRequest
from routes.affinity import partition_from, session_of
from tests.routes.harness import build, chat, connect

ALL_BODY = {"session_id": "a", "prompt_cache_key": "b"}
ALL_HEADERS = {"x-session-affinity": "c", "session_id": "d"}


@pytest.mark.parametrize(
    ("body", "headers", "session"),
    [
        (ALL_BODY, ALL_HEADERS, "a"),
        ({"prompt_cache_key": "b"}, ALL_HEADERS, "b"),
        ({}, ALL_HEADERS, "c"),
        ({}, {"session_id": "d"}, "d"),
        ({}, {}, None),
        ({"session_id": None, "prompt_cache_key": ""}, {"x-session-affinity": ""}, None),
    ],
)
def test_the_body_wins_over_the_headers(body: dict[str, object], headers: dict[str, str], session: str | None) -> None:
    assert session_of(body, headers) == session


def test_a_label_is_a_string_of_some_length() -> None:
    assert session_of({"session_id": "x" * 512}, {}) == "x" * 512
    with pytest.raises(InvalidRequest, match="x-session-affinity must be at most 512"):
        session_of({}, {"x-session-affinity": "x" * 513})
    with pytest.raises(InvalidRequest, match="prompt_cache_key must be a string"):
        session_of({"prompt_cache_key": 1}, {})


PROTOCOLS = {
    "/v1/chat/completions": chat(),
    "/v1/completions": {"prompt": "hi"},
    "/v1/messages": {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]},
    "/v1/responses": {"model": "m", "input": "hi"},
}


@pytest.mark.parametrize("path", PROTOCOLS)
async def test_every_protocol_takes_a_salt_and_only_its_hash_goes_on(path: str) -> None:
    house = build()
    house.says("x")
    async with connect(house) as client:
        for salt in ("tenant", None, "tenant", "other"):
            assert (await client.post(path, json={**PROTOCOLS[path], "cache_salt": salt})).status_code == 200
        for wrong in (5, "", "x" * 513, ["a"]):
            refused = await client.post(path, json={**PROTOCOLS[path], "cache_salt": wrong})
            assert refused.status_code == 400
            assert "cache_salt must" in refused.json()["error"]["message"]
    tenant, plain, again, other = [submit.partition for submit in house.generation.submitted]
    assert tenant == again != other
    assert plain == ""
    assert "tenant" not in tenant


def test_any_text_can_be_a_salt() -> None:
    assert partition_from({"cache_salt": "\ud800"}) != partition_from({"cache_salt": "?"})
    assert partition_from({}) == ""
