from __future__ import annotations

import stat
from pathlib import Path

import pytest

from actors.errors import InvalidRequest
from actors.library.messages import DecodeRate
from actors.library.rates import KEPT, Measured, Rates
from actors.library.storage import Storage, state_folder
from actors.library.token import TokenStore, checked


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "state")


def test_a_token_is_kept_in_a_file_that_only_its_owner_reads(storage: Storage, tmp_path: Path) -> None:
    tokens = TokenStore(storage)
    assert tokens.read() is None
    tokens.save("hf_one")
    tokens.save("hf_two")
    assert tokens.read() == TokenStore(storage).read() == "hf_two"
    assert stat.S_IMODE((tmp_path / "state" / "hf.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["hf.json"]
    tokens.forget()
    tokens.forget()
    assert tokens.read() is None


def test_the_environments_token_goes_first(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = TokenStore(storage)
    tokens.save("hf_saved")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert tokens.for_hub() == "hf_saved"
    monkeypatch.setenv("HF_TOKEN", "hf_environment")
    assert tokens.for_hub() is None


@pytest.mark.parametrize("damaged", ["", "[]", "{", '{"token": 5}', '{"token": ""}'])
def test_a_damaged_file_holds_no_token(storage: Storage, tmp_path: Path, damaged: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "hf.json").write_text(damaged)
    assert TokenStore(storage).read() is None


def test_a_token_is_cut_to_its_characters() -> None:
    assert checked(" hf_abc\n") == "hf_abc"


@pytest.mark.parametrize("wrong", ["", "  ", "two words", "line\r\nfeed", "ümlaut", "x" * 513])
def test_what_cannot_be_a_token_is_refused_without_repeating_it(wrong: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        checked(wrong)
    assert not wrong.strip() or wrong not in refused.value.message


def test_one_library_owns_the_folder(storage: Storage, tmp_path: Path) -> None:
    other = Storage(tmp_path / "state")
    assert storage.own()
    assert storage.own()
    assert not other.own()
    storage.release()
    storage.release()
    assert other.own()
    other.release()


def test_a_folder_that_cannot_be_made_is_not_owned(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not Storage(tmp_path / "file" / "state").own()


def test_a_file_is_replaced_whole(storage: Storage, tmp_path: Path) -> None:
    storage.write("a.json", {"a": 1})
    with pytest.raises(TypeError):
        storage.write("a.json", object())
    assert storage.read("a.json") == {"a": 1}
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["a.json"]


def test_the_folder_is_the_configured_one(tmp_path: Path) -> None:
    assert state_folder(str(tmp_path)) == tmp_path
    assert state_folder(None) == Path.home() / ".troupe"


def test_the_newest_rate_of_a_model_counts() -> None:
    rates = Rates(lambda: 5.0)
    rates.note(DecodeRate("a", 10.0))
    rates.note(DecodeRate("a", 12.0))
    assert rates.of("a") == Measured(12.0, 5.0)
    assert rates.of("b") is None
    later = Rates(lambda: 9.0)
    later.restore(rates.to_plain() | {"x": [1], "y": "z", "n": [float("nan"), 1.0], "m": [-1.0, 1.0]})
    assert later.to_plain() == {"a": [12.0, 5.0]}
    later.restore(["nonsense"])


def test_only_so_many_models_are_remembered() -> None:
    rates = Rates(lambda: 5.0)
    for number in range(KEPT + 1):
        rates.note(DecodeRate(str(number), 1.0))
    assert rates.of("0") is None
    assert rates.of("1") is not None
