"""What a checkpoint folder says about an embedding model: how its vectors are made, and how long a text may be.

The files of sentence-transformers (modules.json and what it names) are followed where they exist. MLX is not imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from actors.errors import StartError
from actors.models.card import ModelCard, json_object, read_card

Pooling = Literal["last", "mean", "cls"]

DECODERS = ("qwen3",)
"""Causal models, read by mlx-lm's own code."""

ENCODERS = ("bert", "camembert", "distilbert", "roberta", "xlm-roberta")
"""Bidirectional models, read by actors/embedding/bert.py."""

_FLAGS: dict[str, Pooling] = {
    "pooling_mode_lasttoken": "last",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
}
_WORDS: dict[str, Pooling] = {"lasttoken": "last", "mean": "mean", "cls": "cls"}
_STAGES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True, slots=True)
class EmbeddingCard:
    """One servable embedding model."""

    model: ModelCard
    """The checkpoint."""
    pooling: Pooling
    """Which hidden states make the vector: the last token's, the mean of all, or the first token's."""
    max_tokens: int
    """Tokens of a text, special ones included, that the model reads."""
    dimensions: int
    """Numbers in a vector."""
    vocabulary: int
    """Token ids are below it."""
    instructs: bool
    """Whether a query may carry an instruction, in the form that Qwen3's embedding models know."""

    @property
    def causal(self) -> bool:
        """Whether tokens see only those before them."""
        return self.model.model_type in DECODERS


def is_embedding_model(path: Path, model_id: str) -> bool:
    """Whether a checkpoint folder holds a model that is made for embeddings, and not for generation.

    A Qwen3 checkpoint has the same files in both cases, so there its name counts too.
    """
    if not path.is_dir() or not (path / "config.json").is_file():
        return False
    config = json_object(path / "config.json")
    model_type = config.get("model_type")
    if model_type in ENCODERS or any(kind == "Pooling" for kind, _ in _stages(path)):
        return True
    return model_type in DECODERS and (
        config.get("architectures") == ["Qwen3Model"] or "embed" in model_id.rsplit("/", 1)[-1].lower()
    )


def read_embedding_card(path: Path, model_id: str) -> EmbeddingCard:
    """Read and check the folder of an embedding model. Blocks for milliseconds; reads headers, not weights.

    Raises:
        StartError: something is missing, damaged or not supported; the message is one sentence that names it.
    """
    model = read_card(path, model_id, generates=False)
    config = json_object(model.path / "config.json", required=True)
    if model.model_type not in (*DECODERS, *ENCODERS):
        known = ", ".join((*DECODERS, *ENCODERS))
        raise StartError(f"{path} is a model of type {model.model_type!r}; embeddings are served of {known}")
    causal = model.model_type in DECODERS
    if not causal:
        _check_encoder(path, config, model)
    sentence = _sentence_config(model.path)
    if sentence.get("do_lower_case") is True:
        raise StartError(f"{path} wants its texts in lower case before they are tokenized, which is not supported")
    return EmbeddingCard(
        model=model,
        pooling=_pooling(model.path) or ("last" if causal else "mean"),
        max_tokens=_max_tokens(path, config, sentence),
        dimensions=_whole(path, config, "hidden_size", "dim"),
        vocabulary=_whole(path, config, "vocab_size"),
        instructs=causal,
    )


def _check_encoder(path: Path, config: Mapping[str, Any], model: ModelCard) -> None:
    if model.quantization_bits is not None:
        raise StartError(f"{path} is quantized; encoders of type {model.model_type} are served unquantized only")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise StartError(f"{path} has positions of type {config['position_embedding_type']!r}, which are not supported")


def _stages(path: Path) -> list[tuple[str, str]]:
    """Kinds and folders of the stages that modules.json names; empty without one."""
    file = path / "modules.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return [(str(entry["type"]).rsplit(".", 1)[-1], str(entry["path"])) for entry in content]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StartError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError):
        raise StartError(f"{file} should hold a list of objects with `type` and `path`") from None


def _pooling(path: Path) -> Pooling | None:
    """What modules.json and the pooling stage's own file say; None without them."""
    found: Pooling | None = None
    for kind, folder in _stages(path):
        if kind not in _STAGES:
            raise StartError(f"{path} has a stage of type {kind}; only {', '.join(_STAGES)} are supported")
        if kind == "Pooling":
            found = _pooling_mode(path / folder / "config.json")
    return found


def _pooling_mode(file: Path) -> Pooling:
    config = json_object(file, required=True)
    word = config.get("pooling_mode")
    flags = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    modes = [word] if isinstance(word, str) else flags
    known = _FLAGS | _WORDS
    if len(modes) != 1 or modes[0] not in known:
        asked = ", ".join(modes) or "none"
        raise StartError(f"{file} asks for the pooling {asked}; one of {', '.join(_WORDS)} is served")
    return known[modes[0]]


def _sentence_config(path: Path) -> dict[str, Any]:
    """sentence_bert_config.json, or the same under the name of another architecture; empty without one."""
    files = sorted(path.glob("sentence_*_config.json"))
    return json_object(files[0]) if files else {}


def _max_tokens(path: Path, config: Mapping[str, Any], sentence: Mapping[str, Any]) -> int:
    positions = _whole(path, config, "max_position_embeddings") - first_position(config)
    stated = sentence.get("max_seq_length")
    return min(stated, positions) if isinstance(stated, int) and stated > 0 else positions


def first_position(config: Mapping[str, Any]) -> int:
    """Number of the first token's position: RoBERTa's begin behind the one of padding, all others with 0."""
    if config.get("model_type") not in ("camembert", "roberta", "xlm-roberta"):
        return 0
    padding = config.get("pad_token_id")
    return (padding if isinstance(padding, int) else 1) + 1


def _whole(path: Path, config: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    raise StartError(f"{path / 'config.json'} does not say its {names[0]}")
