from __future__ import annotations

from pathlib import Path

import pytest

from actors.models.folders import cache_folder


@pytest.mark.parametrize(
    ("platform", "variables", "folder"),
    [
        ("linux", {}, "/home/me/.cache/troupe"),
        ("darwin", {}, "/home/me/Library/Caches/troupe"),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "/x/troupe"),
        ("linux", {"XDG_CACHE_HOME": "~/x"}, "/home/me/x/troupe"),
        ("linux", {"XDG_CACHE_HOME": "/x", "TROUPE_CACHE": "~/models"}, "/home/me/models"),
    ],
)
def test_the_cache_is_where_the_person_or_the_platform_wants_it(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], folder: str
) -> None:
    for name in ("XDG_CACHE_HOME", "TROUPE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setattr("sys.platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)
