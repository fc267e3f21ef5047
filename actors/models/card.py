"""What a checkpoint folder says about its model. Read by every process that serves it, so MLX is never imported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.errors import StartError
from actors.models import architecture
from actors.models.weights import weight_files

_WINDOWS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tiktoken.model", "*.tiktoken", "vocab.json", "vocab.txt")
_PACKED = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One servable checkpoint."""

    model_id: str
    """Name shown on the wire."""
    path: Path
    """Absolute path of the checkpoint folder."""
    model_type: str
    """As in config.json, such as `llama`."""
    context_window: int | None
    """Tokens the model was made for; None when config.json does not say."""
    eos_token_ids: frozenset[int]
    """Tokens that end an answer; empty only when no file names one."""
    temperature: float | None
    """The author's default; 0 (greedy) where the author switched sampling off, None where nothing is said."""
    top_p: float | None
    """The author's default; None where nothing is said or sampling is off."""
    top_k: int | None
    """The author's default; None where nothing is said or sampling is off."""
    quantization_bits: int | None
    """Bits of most quantized layers; None for a checkpoint in floating point."""
    quantization_group: int | None
    """Weights that share one scale; None for a checkpoint in floating point."""
    weight_bytes: int
    """Size of the weight files."""
    fingerprint: str
    """SHA-256 over config.json and the headers, sizes and times of the weight files. Equal means: caches may be
    shared. A copied folder has another one, which costs a cold cache and nothing else."""


def read_card(path: Path, model_id: str, *, trust_model_code: bool = False, generates: bool = True) -> ModelCard:
    """Read and check a checkpoint folder. Blocks for milliseconds; reads headers, not weights.

    With `generates` its architecture must be one that mlx-lm can generate with; otherwise the caller checks that.

    Raises:
        StartError: something is missing, damaged or not supported; the message is one sentence that names it.
    """
    if not path.is_dir():
        raise StartError(f"there is no folder {path}")
    path = path.resolve()
    config = json_object(path / "config.json", required=True)
    generation = json_object(path / "generation_config.json")
    if generates:
        _check_architecture(path, config, trust_model_code)
    files = weight_files(path)
    _check_tokenizer(path)
    bits, group = _quantization(config)
    temperature, top_p, top_k = _sampling(generation)
    return ModelCard(
        model_id=model_id,
        path=path,
        model_type=str(config.get("model_type")),
        context_window=_context_window(config),
        eos_token_ids=frozenset(_eos_token_ids(path, config, generation)),
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        quantization_bits=bits,
        quantization_group=group,
        weight_bytes=sum(file.size for file in files),
        fingerprint=_fingerprint(path / "config.json", [file.digest for file in files]),
    )


def json_object(path: Path, *, required: bool = False) -> dict[str, Any]:
    """The JSON object in a file of a checkpoint; empty when it is not required and missing. Raises `StartError`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise StartError(f"{path.parent} is no model: it holds no {path.name}") from None
        return {}
    except OSError as error:
        raise StartError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise StartError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise StartError(f"{path} should hold a JSON object")
    return content


def _check_architecture(path: Path, config: Mapping[str, Any], trusted: bool) -> None:
    model_type, own_code = config.get("model_type"), config.get("model_file")
    if not isinstance(model_type, str):
        raise StartError(f"{path / 'config.json'} names no model_type")
    if own_code is not None:
        if not trusted:
            raise StartError(
                f"{path} wants to run its own code ({own_code}); "
                "set generation.trust_model_code if you wrote or read it"
            )
        if not isinstance(own_code, str) or not (path / own_code).is_file():
            raise StartError(f"{path} holds no {own_code}, which its config.json names as model_file")
    elif architecture.module_of(config) is None:
        raise StartError(f"the installed mlx-lm has no model of type {model_type!r}, which {path} needs")


def _check_tokenizer(path: Path) -> None:
    if not any(True for pattern in _TOKENIZERS for _ in path.glob(pattern)):
        raise StartError(f"{path} holds no tokenizer (tokenizer.json or tokenizer.model)")


def _sections(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """config.json itself, then the part about text of a multimodal one."""
    yield config
    if isinstance(text := config.get("text_config"), dict):
        yield text


def _context_window(config: Mapping[str, Any]) -> int | None:
    found = (section.get(key) for section in _sections(config) for key in _WINDOWS)
    return next((value for value in found if isinstance(value, int) and value > 0), None)


def _eos_token_ids(path: Path, config: Mapping[str, Any], generation: Mapping[str, Any]) -> set[int]:
    """Those of generation_config.json, else of config.json; and the tokenizer's own in any case.

    The tokenizer's is added because fine-tunes often change it and leave the other files as they were.
    """
    for source in (generation, *_sections(config)):
        if found := _token_ids(source.get("eos_token_id")):
            break
    else:
        found = set()
    return found | _tokenizer_eos(path)


def _token_ids(value: object) -> set[int]:
    values = value if isinstance(value, list) else [value]
    return {number for number in values if isinstance(number, int) and not isinstance(number, bool) and number >= 0}


def _tokenizer_eos(path: Path) -> set[int]:
    config = json_object(path / "tokenizer_config.json")
    token = config.get("eos_token")
    token = token.get("content") if isinstance(token, dict) else token
    if not isinstance(token, str):
        return set()
    decoder = config.get("added_tokens_decoder")
    for number, entry in decoder.items() if isinstance(decoder, dict) else ():
        if isinstance(entry, dict) and entry.get("content") == token and number.isdecimal():
            return {int(number)}
    tokenizer = json_object(path / "tokenizer.json")
    added = [entry for entry in tokenizer.get("added_tokens") or [] if entry.get("content") == token]
    vocabulary = (tokenizer.get("model") or {}).get("vocab")
    in_vocabulary = vocabulary.get(token) if isinstance(vocabulary, dict) else None
    return _token_ids([entry.get("id") for entry in added] or in_vocabulary)


def _sampling(generation: Mapping[str, Any]) -> tuple[float | None, float | None, int | None]:
    if generation.get("do_sample") is False:
        return 0.0, None, None
    temperature, top_p, top_k = (_plain_number(generation.get(key)) for key in ("temperature", "top_p", "top_k"))
    return (
        temperature if temperature is not None and temperature >= 0 else None,
        top_p if top_p is not None and 0 <= top_p <= 1 else None,
        int(top_k) if top_k is not None and top_k >= 0 else None,
    )


def _plain_number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _quantization(config: Mapping[str, Any]) -> tuple[int | None, int | None]:
    for section in _sections(config):
        for key in ("quantization", "quantization_config"):
            if isinstance(stated := section.get(key), dict):
                bits, group = _PACKED.get(stated.get("quant_method", ""), (None, None))
                return stated.get("bits", bits), stated.get("group_size", group)
    return None, None


def _fingerprint(config: Path, digests: list[str]) -> str:
    digest = hashlib.sha256(config.read_bytes())
    for part in digests:
        digest.update(part.encode())
    return digest.hexdigest()
