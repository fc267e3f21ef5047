"""Keys and hosts in the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from actors.errors import StartError
from actors.server_settings import is_loopback, misgivings
from actors.settings import parse

PEARL = "pearl-of-great-price"


def server(**values: Any) -> dict[str, Any]:
    return {"server": values}


def test_a_key_has_a_name_and_opens_inference_unless_it_says_more() -> None:
    keys = [{"name": "laptop", "key": PEARL}, {"name": "cron", "key": "other", "scopes": ["admin", "inference"]}]
    first, second = parse(server(api_keys=keys)).server.api_keys
    assert (first.name, first.scopes) == ("laptop", ("inference",))
    assert second.scopes == ("admin", "inference")


def test_each_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TROUPE_TEST_KEY", PEARL)
    (key,) = parse(server(api_keys=[{"name": "a", "key": "env:TROUPE_TEST_KEY"}])).server.api_keys
    assert key.key.get_secret_value() == PEARL


def test_no_print_of_the_settings_shows_a_key() -> None:
    settings = parse(server(api_key="sesame-open", api_keys=[{"name": "a", "key": PEARL}]))
    for text in (repr(settings), str(settings), settings.model_dump_json(), str(settings.model_dump())):
        assert PEARL not in text
        assert "sesame-open" not in text


@pytest.mark.parametrize(
    "values",
    [
        {"api_keys": [PEARL]},
        {"api_keys": PEARL},
        {"api_keys": [{"name": "a", "key": [PEARL]}]},
        {"api_keys": [{"name": 5, "key": PEARL}]},
        {"api_keys": [{"key": PEARL}]},
        {"api_keys": [{"name": "a", "key": PEARL, "scope": "admin"}]},
        {"api_keys": [{"name": "a", "key": PEARL, "scopes": ["root"]}]},
        {"api_keys": [{"name": "a", "key": PEARL, "scopes": []}]},
        {"api_keys": [{"name": "a", "key": PEARL}, {"name": "b", "key": PEARL}]},
        {"api_keys": [{"name": "a", "key": PEARL}], "api_key": PEARL},
        {"api_keys": [{"name": "a", "key": PEARL}, {"name": "a", "key": "other"}]},
        {"api_key": [PEARL]},
        {"api_key": ""},
        {"port": "x", "api_key": PEARL},
    ],
)
def test_what_is_wrong_is_said_without_the_key(values: dict[str, Any]) -> None:
    with pytest.raises(StartError, match=r"^server") as caught:
        parse(server(**values))
    assert PEARL not in caught.value.message


def test_a_wrong_entry_is_named_with_what_is_allowed() -> None:
    with pytest.raises(StartError, match=r"^server\.api_keys\.0\.scope: unknown setting; allowed here: key, name, sco"):
        parse(server(api_keys=[{"name": "a", "key": PEARL, "scope": "admin"}]))


@pytest.mark.parametrize("host", ["troupe.lan", "*.example.com", "*", "10.0.0.7", "[fe80::1]", "fe80::1", "a_b"])
def test_a_host_is_a_name_or_an_address(host: str) -> None:
    assert len(parse(server(allowed_hosts=[host])).server.allowed_hosts) == 1


@pytest.mark.parametrize("host", ["", "http://a", "a:8080", "a/b", "*a", "a.*", "[::1", "a b", "."])
def test_what_is_no_host_is_told_so(host: str) -> None:
    with pytest.raises(StartError, match=r"^server\.allowed_hosts\.0: should be a host without scheme and port"):
        parse(server(allowed_hosts=[host]))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, []),
        ({"host": "localhost"}, []),
        ({"host": "0.0.0.0"}, ["open to all"]),
        ({"host": "0.0.0.0", "api_key": "env:TROUPE_TEST_KEY"}, []),
        ({"host": "0.0.0.0", "api_keys": [{"name": "a", "key": "env:TROUPE_TEST_KEY"}]}, []),
        ({"api_key": PEARL}, ["written out"]),
        ({"host": "10.0.0.5", "api_keys": [{"name": "a", "key": PEARL}]}, ["written out"]),
    ],
)
def test_who_starts_an_open_server_is_told(
    values: dict[str, Any], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TROUPE_TEST_KEY", "sesame")
    told = misgivings(server(**values), parse(server(**values)).server)
    assert len(told) == len(words)
    assert all(word in sentence for word, sentence in zip(words, told, strict=True))
    assert PEARL not in str(told)


@pytest.mark.parametrize(
    ("host", "alone"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("a.lan", False)],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone
