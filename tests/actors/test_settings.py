"""What a configuration may say, and what is said to one that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from actors.errors import StartError
from actors.settings import Settings, parse, read

LOCAL = Path(__file__).parents[2] / "configs/local.yaml"


def test_the_shipped_configuration_is_valid() -> None:
    settings = read(LOCAL)
    assert settings.model == "starter"
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8080)
    assert settings.prompt_cache.max_bytes == 8 * 2**30


def test_nothing_said_means_the_defaults() -> None:
    settings = parse({})
    assert (settings.generation.max_rows, settings.generation.queue) == (8, 64)
    assert settings.ingress.preparation_queue == 64
    assert settings.server.api_key is None


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GiB", 8 * 2**30), ("500 MB", 5 * 10**8), ("1.5kb", 1500), ("17", 17), (17, 17), (0, 0)],
)
def test_sizes_are_bytes_or_text(text: object, size: int) -> None:
    assert parse({"prompt_cache": {"max_bytes": text}}).prompt_cache.max_bytes == size


@pytest.mark.parametrize(
    ("args", "sentences"),
    [
        ({"modle": 1}, ["modle: unknown setting; allowed here: audio_sessions, embeddings, generation,"]),
        ({"generation": {"rows": 1}}, ["generation.rows: unknown setting; allowed here: blas, context_tokens,"]),
        ({"gpu_lease": {"weights": {"chat": 1}}}, ["gpu_lease.weights.chat: unknown setting; allowed here: backgro"]),
        ({"server": 5}, ["server: input should be a valid dictionary"]),
        ({"server": {"port": "x"}}, ["server.port: input should be a valid integer"]),
        ({"server": {"port": 0}}, ["server.port: input should be greater than or equal to 1, not 0 (allowed: int)"]),
        ({"generation": {"blas": "x"}}, ["generation.blas: input should be 'auto' or 'off', not 'x' (allowed: 'auto'"]),
        ({"prompt_cache": {"max_bytes": "8 apples"}}, ["prompt_cache.max_bytes: should be a number of bytes or a si"]),
        ({"server": {"api_key": 5}}, ["server.api_key: input should be a valid string (allowed: str or null)"]),
        ({"a": 1, "b": 2}, ["a: unknown setting", "b: unknown setting"]),
    ],
)
def test_every_fault_is_named_with_its_path_and_what_is_allowed(args: dict[str, Any], sentences: list[str]) -> None:
    with pytest.raises(StartError) as caught:
        parse(args)
    lines = caught.value.message.splitlines()
    assert len(lines) == len(sentences)
    for line, sentence in zip(lines, sentences, strict=True):
        assert line.startswith(sentence)


def test_a_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TROUPE_TEST_KEY", "sesame")
    key = parse({"server": {"api_key": "env:TROUPE_TEST_KEY"}}).server.api_key
    assert key is not None and key.get_secret_value() == "sesame"
    monkeypatch.delenv("TROUPE_TEST_KEY")
    with pytest.raises(StartError, match="the environment has no TROUPE_TEST_KEY"):
        parse({"server": {"api_key": "env:TROUPE_TEST_KEY"}})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "exactly one application"),
        (b"- a", "exactly one application"),
        (b"applications: []", "exactly one application"),
        (b"applications: [{name: a}, {name: b}]", "exactly one application"),
        (b"applications: [{args: [1]}]", "args should be a mapping"),
        (b"a: [", "is not valid YAML"),
        (b"\xff\xfe\x00", "is not valid YAML"),
    ],
)
def test_a_file_that_is_no_configuration_is_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(StartError, match=sentence) as caught:
        read(path)
    assert "\n" not in caught.value.message


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="No such file"):
        read(tmp_path / "none.yaml")


def test_settings_cannot_be_changed() -> None:
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.model = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("server", "port", True),
        ("generation", "max_rows", True),
        ("generation", "max_rows", "8"),
        ("prompt_cache", "max_bytes", True),
        ("generation", "temperature", True),
        ("generation", "trust_model_code", "yes"),
        ("generation", "trust_model_code", 1),
        ("server", "drain_timeout_s", float("inf")),
        ("gpu_lease", "slice_ms", float("nan")),
        ("generation", "context_tokens", 0),
        ("server", "host", 5),
    ],
)
def test_a_value_of_another_type_is_not_made_to_fit(section: str, key: str, value: object) -> None:
    with pytest.raises(StartError, match=rf"^{section}\.{key}"):
        parse({section: {key: value}})


def test_whole_numbers_are_fine_where_others_are_too_and_lists_where_several_are() -> None:
    server = {"drain_timeout_s": 5, "cors_origins": ["http://a"]}
    settings = parse({"server": server, "prompt_cache": {"max_bytes": "1GiB"}})
    assert settings.server.drain_timeout_s == 5.0
    assert settings.server.cors_origins == ("http://a",)
    assert settings.prompt_cache.max_bytes == 2**30


def test_a_word_in_the_place_of_a_list_is_told_so() -> None:
    with pytest.raises(StartError, match=r"^server\.cors_origins: input should be a list, not .* \(allowed: a list of"):
        parse({"server": {"cors_origins": "*"}})
