from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from actors.settings import Settings
from routes.cli import reference

ROOT = Path(__file__).parents[3]


def keys(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, str]]:
    """Every setting that is not a section, with its description."""
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from keys(info.annotation, f"{path}{name}.")
        else:
            yield f"{path}{name}", info.description or ""
            entry = next(iter(get_args(info.annotation)), None)
            if isinstance(entry, type) and issubclass(entry, BaseModel):
                yield from keys(entry, f"{path}{name}[].")


def test_the_page_in_docs_is_the_one_the_settings_make() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == reference.markdown()


def test_every_setting_has_one_row_with_its_meaning() -> None:
    rows = [line for line in reference.markdown().splitlines() if line.startswith("| `")]
    found = {row.split("`")[1]: row for row in rows}
    expected = dict(keys(Settings))
    assert found.keys() == expected.keys()
    assert len(rows) == len(expected)
    for name, meaning in expected.items():
        assert meaning, name
        assert found[name].endswith(f" | {meaning} |")


def test_types_bounds_and_defaults_are_spelled_out() -> None:
    rows = {line.split("`")[1]: line for line in reference.markdown().splitlines() if line.startswith("| `")}
    assert rows["server.port"].startswith("| `server.port` | whole number, at least 1, at most 65535 | `8080` |")
    assert rows["server.api_key"].startswith("| `server.api_key` | text | `unset` |")
    assert rows["server.cors_origins"].startswith("| `server.cors_origins` | list of text | `none` |")
    assert rows["generation.blas"].startswith("| `generation.blas` | `auto` or `off` | `auto` |")


def test_no_row_breaks_its_table() -> None:
    for line in reference.markdown().splitlines():
        if line.startswith("|"):
            assert line.count("|") == 5, line
