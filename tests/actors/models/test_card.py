from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.errors import StartError
from actors.models.card import ModelCard, read_card


@pytest.fixture
def folder(tmp_path: Path, tiny: Callable[[str], Path]) -> Path:
    """A checkpoint of this test's own, to be spoilt."""
    return Path(shutil.copytree(tiny("llama"), tmp_path / "checkpoint"))


def edit(path: Path, **changes: Any) -> None:
    """Set keys of a JSON file, made when missing; None takes a key away."""
    content = json.loads(path.read_text()) if path.exists() else {}
    content |= changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def test_a_card_says_what_the_files_say(folder: Path) -> None:
    card = read_card(folder, "tiny")
    assert card == ModelCard(
        model_id="tiny",
        path=folder,
        model_type="llama",
        context_window=4096,
        eos_token_ids=frozenset({256}),
        temperature=None,
        top_p=None,
        top_k=None,
        quantization_bits=None,
        quantization_group=None,
        weight_bytes=(folder / "model.safetensors").stat().st_size,
        fingerprint=card.fingerprint,
    )


@pytest.mark.parametrize("kind", ["llama", "sliding", "hybrid", "mamba", "moe"])
def test_every_kind_of_checkpoint_has_a_card(tiny: Callable[[str], Path], kind: str) -> None:
    card = read_card(tiny(kind), kind)
    assert card.context_window == 4096
    assert card.eos_token_ids == {256}


def test_a_card_is_read_without_mlx(folder: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from actors.models.card import read_card;"
        "read_card(Path(sys.argv[1]), 'x'); print('mlx' in {name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder)], text=True, capture_output=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({"max_position_embeddings": 100, "n_positions": 7}, 100),
        ({"max_position_embeddings": None, "n_positions": 7}, 7),
        ({"max_position_embeddings": None, "text_config": {"max_position_embeddings": 50}}, 50),
        ({"max_position_embeddings": 0}, None),
        ({"max_position_embeddings": None}, None),
    ],
)
def test_the_context_window_is_found_where_the_family_keeps_it(
    folder: Path, config: dict[str, Any], window: int | None
) -> None:
    edit(folder / "config.json", **config)
    assert read_card(folder, "x").context_window == window


@pytest.mark.parametrize(
    ("generation", "config", "token", "ids"),
    [
        ([1, 2], 3, None, {1, 2}),
        (None, 3, None, {3}),
        (None, [3, 4], None, {3, 4}),
        (None, None, None, set()),
        (1, 3, "<end>", {1, 256}),
        (0, None, None, {0}),
        ("x", True, None, set()),
    ],
)
def test_end_tokens_come_from_generation_config_then_config_and_always_from_the_tokenizer(
    folder: Path, generation: object, config: object, token: str | None, ids: set[int]
) -> None:
    edit(folder / "generation_config.json", eos_token_id=generation)
    edit(folder / "config.json", eos_token_id=config)
    edit(folder / "tokenizer_config.json", eos_token=token, added_tokens_decoder=None)
    assert read_card(folder, "x").eos_token_ids == ids


def test_end_tokens_of_a_multimodal_config_are_found(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    edit(folder / "config.json", eos_token_id=None, text_config={"eos_token_id": 9})
    edit(folder / "tokenizer_config.json", eos_token=None)
    assert read_card(folder, "x").eos_token_ids == {9}


def test_the_tokenizers_end_token_is_found_among_its_added_tokens(folder: Path) -> None:
    edit(
        folder / "tokenizer_config.json",
        eos_token={"content": "<stop>"},
        added_tokens_decoder={"x": {"content": "<stop>"}, "77": {"content": "<stop>"}},
    )
    assert read_card(folder, "x").eos_token_ids == {77, 256}
    edit(folder / "tokenizer_config.json", added_tokens_decoder=None)
    edit(folder / "tokenizer.json", added_tokens=[{"content": "<stop>", "id": 78}])
    assert read_card(folder, "x").eos_token_ids == {78, 256}


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        ({}, (None, None, None)),
        ({"temperature": 0.6, "top_p": 0.95, "top_k": 20}, (0.6, 0.95, 20)),
        ({"do_sample": True, "temperature": 0.6}, (0.6, None, None)),
        ({"do_sample": False, "temperature": 0.6, "top_p": 0.9}, (0.0, None, None)),
        ({"temperature": -1, "top_p": 7, "top_k": -1}, (None, None, None)),
        ({"temperature": "hot", "top_p": [], "top_k": True}, (None, None, None)),
    ],
)
def test_sampling_defaults_are_the_authors_and_nonsense_is_left_out(
    folder: Path, generation: dict[str, Any], expected: tuple[float | None, float | None, int | None]
) -> None:
    edit(folder / "generation_config.json", **generation)
    card = read_card(folder, "x")
    assert (card.temperature, card.top_p, card.top_k) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"quantization": {"bits": 4, "group_size": 64}}, (4, 64)),
        ({"quantization_config": {"quant_method": "mxfp4"}}, (4, 32)),
        ({"text_config": {"quantization": {"bits": 8, "group_size": 32}}}, (8, 32)),
        ({"quantization_config": {"quant_method": "unheard-of"}}, (None, None)),
    ],
)
def test_quantization_is_read(folder: Path, config: dict[str, Any], expected: tuple[int | None, int | None]) -> None:
    edit(folder / "config.json", **config)
    card = read_card(folder, "x")
    assert (card.quantization_bits, card.quantization_group) == expected


def test_the_fingerprint_stays_until_config_or_weights_change(folder: Path) -> None:
    first = read_card(folder, "x").fingerprint
    edit(folder / "generation_config.json", temperature=1.0)
    assert read_card(folder, "another name").fingerprint == first
    edit(folder / "config.json", rope_theta=5.0)
    second = read_card(folder, "x").fingerprint
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes().replace(b'"format":"mlx"', b'"format":"xlm"'))
    assert len({first, second, read_card(folder, "x").fingerprint}) == 3


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _write(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda folder: shutil.rmtree(folder), "there is no folder {}"),
        (_remove("config.json"), "{} is no model: it holds no config.json"),
        (_write("config.json", "{"), "{}/config.json is not valid JSON: "),
        (_write("config.json", "[]"), "{}/config.json should hold a JSON object"),
        (_write("config.json", "{}"), "{}/config.json names no model_type"),
        (_write("config.json", '{"model_type": "bert"}'), "the installed mlx-lm has no model of type 'bert', which {}"),
        (_write("generation_config.json", "?"), "{}/generation_config.json is not valid JSON: "),
        (_remove("model.safetensors"), "{} holds no model*.safetensors file"),
        (_write("model.safetensors", "short"), "{}/model.safetensors is cut short or no safetensors file"),
        (_remove("tokenizer.json"), "{} holds no tokenizer (tokenizer.json or tokenizer.model)"),
    ],
)
def test_a_spoilt_folder_is_refused_in_one_sentence(
    folder: Path, spoil: Callable[[Path], object], sentence: str
) -> None:
    spoil(folder)
    with pytest.raises(StartError) as caught:
        read_card(folder, "x")
    assert caught.value.message.startswith(sentence.format(folder))
    assert "\n" not in caught.value.message


def test_a_checkpoint_with_code_of_its_own_needs_trust(folder: Path) -> None:
    edit(folder / "config.json", model_type="mine", model_file="mine.py")
    with pytest.raises(StartError, match=r"wants to run its own code \(mine\.py\)"):
        read_card(folder, "x")
    with pytest.raises(StartError, match=r"holds no mine\.py"):
        read_card(folder, "x", trust_model_code=True)
    (folder / "mine.py").touch()
    assert read_card(folder, "x", trust_model_code=True).model_type == "mine"
