from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.errors import StartError
from actors.models import hub, starter
from actors.models.resolve import prepare


@pytest.fixture
def checkpoint(tmp_path: Path, tiny: Callable[[str], Path]) -> Path:
    return Path(shutil.copytree(tiny("llama"), tmp_path / "here" / "my-model"))


def test_the_starter_is_shown_by_its_own_name() -> None:
    card = prepare("starter", progress=False)
    assert card.model_id == "SmolLM2-135M-Instruct"
    assert card.path == starter.ensure(progress=False)


def test_a_folder_is_named_absolutely_relatively_or_from_home(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (str(checkpoint), "here/my-model", "./here/my-model", "here/my-model/", "~/here/my-model"):
        card = prepare(name, progress=False)
        assert (card.model_id, card.path) == ("my-model", checkpoint)


def test_the_name_of_a_repository_goes_to_the_hub(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetch(repository: str, *, progress: bool, code: bool = False) -> Path:
        asked.append((repository, code))
        return checkpoint

    monkeypatch.setattr(hub, "fetch", fetch)
    assert prepare("acme/tiny-1B-4bit", progress=False, trust_model_code=True).model_id == "acme/tiny-1B-4bit"
    assert asked == [("acme/tiny-1B-4bit", True)]


@pytest.mark.parametrize("name", ["/no/such", "./such", "../such", "~/no/such", "a/b/c", "no/such/"])
def test_a_missing_folder_is_never_looked_up_on_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub, "fetch", lambda *arguments, **options: pytest.fail("went to the hub"))
    with pytest.raises(StartError, match=r"^there is no folder /.*[a-z]$"):
        prepare(name, progress=False)


def test_a_file_and_a_plain_word_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").touch()
    with pytest.raises(StartError, match=r"^model\.gguf is a file; `model` should name the folder of a checkpoint$"):
        prepare("model.gguf", progress=False)
    with pytest.raises(StartError, match=r"^'startr' is neither `starter`, nor a folder, nor the id of a repository"):
        prepare("startr", progress=False)
