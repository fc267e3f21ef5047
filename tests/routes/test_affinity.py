import pytest

from actors.errors import InvalidRequest
from routes.affinity import session_of

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
