from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.library.registry import scan
from actors.models.machine import Machine
from tests.support.hub_cache import HubCache

MACHINE = Machine("M4 Pro", 24 * 2**30, 273.0)
PLENTY = 10**10
HEADER = b'{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
WEIGHTS = len(HEADER).to_bytes(8, "little") + HEADER + b"\0\0\0\0"
CONFIG = json.dumps(
    {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 1}
).encode()


@pytest.fixture
def cache(tmp_path: Path) -> HubCache:
    return HubCache(tmp_path / "hub")


def rows(cache: HubCache) -> dict[str, Any]:
    return {entry.repo_id: entry for entry in scan(cache.folder, MACHINE, PLENTY)}


def test_a_cached_model_is_described_by_its_files(cache: HubCache, tiny: Callable[[str], Path]) -> None:
    snapshot = cache.checkpoint("acme/tiny", tiny("llama"))
    entry = rows(cache)["acme/tiny"]
    assert (entry.path, entry.model_type, entry.tier, entry.servable) == (snapshot, "llama", "targeted", True)
    assert entry.size_bytes == (tiny("llama") / "model.safetensors").stat().st_size
    assert (entry.quant_bits, entry.quant_group_size) == (None, None)
    assert entry.fit.fits
    assert entry.fit.max_context == 4096


@pytest.mark.parametrize("kind", ["sliding", "hybrid", "mamba", "moe"])
def test_every_kind_of_model_is_assessed(cache: HubCache, tiny: Callable[[str], Path], kind: str) -> None:
    cache.checkpoint("acme/tiny", tiny(kind))
    entry = rows(cache)["acme/tiny"]
    assert entry.servable
    assert entry.fit.decode_tps > 0


def test_experts_that_rest_make_a_mixture_faster(cache: HubCache, tiny: Callable[[str], Path]) -> None:
    cache.checkpoint("acme/mixture", tiny("moe"))
    config = json.loads((tiny("moe") / "config.json").read_text()) | {"num_experts_per_tok": 4}
    files = {path.name: path.read_bytes() for path in tiny("moe").iterdir()}
    cache.snapshot("acme/all", "a", files | {"config.json": json.dumps(config).encode()}, "main")
    found = rows(cache)
    assert found["acme/mixture"].fit.decode_tps > found["acme/all"].fit.decode_tps


def test_what_mlx_lm_loads_under_another_name_is_generic(cache: HubCache) -> None:
    files = {"model.safetensors": WEIGHTS, "tokenizer.json": b"{}"}
    renamed = json.dumps(json.loads(CONFIG) | {"model_type": "mistral"}).encode()
    cache.snapshot("acme/mistral", "a", files | {"config.json": renamed}, "main")
    cache.snapshot("acme/alien", "a", files | {"config.json": b'{"model_type": "alien"}'}, "main")
    found = rows(cache)
    assert (found["acme/mistral"].tier, found["acme/mistral"].servable) == ("generic", True)
    assert (found["acme/alien"].tier, found["acme/alien"].servable, found["acme/alien"].fit) == (None, False, None)


@pytest.mark.parametrize(("kind", "servable"), [("bert", True), ("roberta", True), ("deberta", False)])
def test_encoders_are_models_too(cache: HubCache, kind: str, servable: bool) -> None:
    config = {"model_type": kind, "hidden_size": 8, "vocab_size": 9, "max_position_embeddings": 16, "pad_token_id": 1}
    files = {"config.json": json.dumps(config).encode(), "model.safetensors": WEIGHTS, "tokenizer.json": b"{}"}
    cache.snapshot("acme/encoder", "a", files, "main")
    entry = rows(cache)["acme/encoder"]
    assert (entry.servable, entry.tier) == (servable, "targeted" if servable else None)


def test_main_counts_else_the_newest_snapshot(cache: HubCache) -> None:
    files = {"config.json": CONFIG, "model.safetensors": WEIGHTS}
    old = cache.snapshot("acme/a", "1", files)
    new = cache.snapshot("acme/a", "2", files)
    os.utime(old, (1, 1))
    assert rows(cache)["acme/a"].path == new
    cache.snapshot("acme/a", "1", {}, ref="main")
    assert rows(cache)["acme/a"].path == old


def test_a_snapshot_without_weights_does_not_count(cache: HubCache) -> None:
    cache.snapshot("acme/none", "1", {"config.json": CONFIG}, "main")
    cache.snapshot("acme/newer", "1", {"config.json": CONFIG, "model.safetensors": WEIGHTS})
    cache.snapshot("acme/newer", "2", {"config.json": CONFIG}, "main")
    assert list(rows(cache)) == ["acme/newer"]
    assert rows(cache)["acme/newer"].path.name == "1"


def test_what_is_cut_short_or_has_no_tokenizer_is_listed_but_not_servable(cache: HubCache) -> None:
    files = {"config.json": CONFIG, "model.safetensors": WEIGHTS, "tokenizer.json": b"{}"}
    cache.snapshot("acme/whole", "1", files, "main")
    cache.snapshot("acme/short", "1", files | {"model.safetensors": WEIGHTS[:-1]}, "main")
    cache.snapshot("acme/mute", "1", {name: files[name] for name in ("config.json", "model.safetensors")}, "main")
    assert {name: entry.servable for name, entry in rows(cache).items()} == {
        "acme/whole": True,
        "acme/short": False,
        "acme/mute": False,
    }


@pytest.mark.parametrize("config", [b"{", b"[]", b"\xff", b'{"model_type": 5}', b'{"quantization": 7}', b"[" * 100_000])
def test_a_broken_configuration_hides_nobody(cache: HubCache, config: bytes) -> None:
    cache.snapshot("acme/broken", "1", {"config.json": config, "model.safetensors": b"x"}, "main")
    cache.snapshot("acme/well", "1", {"config.json": CONFIG, "model.safetensors": WEIGHTS}, "main")
    found = rows(cache)
    assert (found["acme/broken"].model_type, found["acme/broken"].fit) == (None, None)
    assert found["acme/well"].fit is not None


def test_models_come_smallest_first_and_other_folders_are_none(cache: HubCache) -> None:
    for name, size in (("b", 30), ("a", 30), ("c", 5)):
        cache.snapshot(f"acme/{name}", "1", {"config.json": CONFIG, "model.safetensors": b"x" * size}, "main")
    (cache.folder / "datasets--acme--set" / "snapshots" / "1").mkdir(parents=True)
    (cache.folder / "version.txt").write_text("1")
    assert list(rows(cache)) == ["acme/c", "acme/a", "acme/b"]


def test_quantization_is_read_from_the_configuration(cache: HubCache) -> None:
    config = json.dumps(json.loads(CONFIG) | {"quantization": {"bits": 4, "group_size": 64}}).encode()
    cache.snapshot("acme/q", "1", {"config.json": config, "model.safetensors": WEIGHTS}, "main")
    assert (rows(cache)["acme/q"].quant_bits, rows(cache)["acme/q"].quant_group_size) == (4, 64)


def test_no_cache_is_an_empty_one(tmp_path: Path) -> None:
    assert scan(tmp_path / "nowhere", MACHINE, PLENTY) == ()
