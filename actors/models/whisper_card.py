"""What a checkpoint folder says about a Whisper model, in mlx-whisper's layout. MLX is not imported."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.errors import StartError
from actors.models import hub, starter_whisper
from actors.models.card import ModelCard, json_object

log = logging.getLogger("troupe.models")

AUTO = "auto"
NONE = "none"
WEIGHT_FILES = ("weights.safetensors", "weights.npz", "model.safetensors")
"""Names under which mlx-whisper's checkpoints keep their weights; the first one found counts."""

_SIZES = (
    "n_mels",
    "n_audio_ctx",
    "n_audio_state",
    "n_audio_head",
    "n_audio_layer",
    "n_vocab",
    "n_text_ctx",
    "n_text_state",
    "n_text_head",
    "n_text_layer",
)


@dataclass(frozen=True, slots=True)
class WhisperCard:
    """One servable Whisper checkpoint."""

    model_id: str
    """Name shown on the wire."""
    path: Path
    """Absolute path of the checkpoint folder."""
    weights: Path
    """The file of weights."""
    sizes: dict[str, int]
    """The dimensions of the model, by mlx-whisper's names."""
    quantization: dict[str, Any] | None
    """Arguments of MLX's quantization; None for floating point."""
    weight_bytes: int
    """Size of the file of weights."""
    fingerprint: str
    """Equal means the same weights, as far as sizes and times tell."""

    @property
    def multilingual(self) -> bool:
        """Whether it knows more than English."""
        return self.sizes["n_vocab"] >= 51865

    def as_served(self) -> ModelCard:
        """What the server says of itself when this is its main model."""
        bits = (self.quantization or {}).get("bits")
        return ModelCard(
            model_id=self.model_id,
            path=self.path,
            model_type="whisper",
            context_window=self.sizes["n_text_ctx"],
            eos_token_ids=frozenset(),
            temperature=None,
            top_p=None,
            top_k=None,
            quantization_bits=bits,
            quantization_group=(self.quantization or {}).get("group_size"),
            weight_bytes=self.weight_bytes,
            fingerprint=self.fingerprint,
        )


def is_whisper(path: Path) -> bool:
    """Whether a folder holds a Whisper checkpoint that can be served."""
    if not (path / "config.json").is_file():
        return False
    try:
        config = json_object(path / "config.json")
    except StartError:
        return False
    return all(isinstance(config.get(name), int) for name in _SIZES) and _weights(path) is not None


def read_whisper_card(path: Path, model_id: str) -> WhisperCard:
    """Read and check a checkpoint folder. Blocks for milliseconds; reads no weights.

    Raises:
        StartError: something is missing or not supported; the message is one sentence that names it.
    """
    path = path.resolve()
    config = json_object(path / "config.json", required=True)
    missing = [name for name in _SIZES if not isinstance(config.get(name), int)]
    if missing:
        hint = " (a transformers checkpoint has to be converted for mlx-whisper)" if "d_model" in config else ""
        raise StartError(f"{path} is no Whisper model that mlx-whisper reads: its config.json lacks {missing[0]}{hint}")
    weights = _weights(path)
    if weights is None:
        raise StartError(f"{path} holds none of {', '.join(WEIGHT_FILES)}")
    status = weights.stat()
    digest = hashlib.sha256((path / "config.json").read_bytes())
    digest.update(f"{weights.name} {status.st_size} {status.st_mtime_ns}".encode())
    stated = config.get("quantization")
    return WhisperCard(
        model_id=model_id,
        path=path,
        weights=weights,
        sizes={name: config[name] for name in _SIZES},
        quantization=stated if isinstance(stated, dict) else None,
        weight_bytes=status.st_size,
        fingerprint=digest.hexdigest(),
    )


def find_whisper(model: str, *, progress: bool) -> WhisperCard | None:
    """The Whisper model that a setting means; None for `none`. Blocks, for as long as a download takes.

    `auto` is the first Whisper model in the hub's local cache, else the speech starter, which is fetched. Anything else
    is `starter-whisper`, a local folder, or a hub repository.

    Raises:
        StartError: one sentence that says what is wrong with the model or the way to it.
    """
    if model == NONE:
        return None
    if model == AUTO:
        return downloaded_whisper() or read_whisper_card(
            starter_whisper.ensure(progress=progress), starter_whisper.MODEL_ID
        )
    if model == starter_whisper.MODEL_ID:
        return read_whisper_card(starter_whisper.ensure(progress=progress), starter_whisper.MODEL_ID)
    folder = Path(model).expanduser()
    if folder.is_dir():
        return read_whisper_card(folder, folder.resolve().name)
    if model.startswith(("/", "~", ".")) or model.count("/") != 1:
        raise StartError(f"there is no folder {model}, and a repository is called `owner/name`")
    return read_whisper_card(hub.fetch(model, progress=progress), model)


def downloaded_whisper() -> WhisperCard | None:
    """The first servable Whisper model in the hub's local cache, by name; None without one. Blocks for milliseconds."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repositories = sorted(scan_cache_dir().repos, key=lambda repository: repository.repo_id)
    except (CacheNotFound, OSError):
        return None
    for repository in repositories:
        revisions = sorted(repository.revisions, key=lambda revision: revision.last_modified, reverse=True)
        for revision in revisions if "whisper" in repository.repo_id.lower() else ():
            if is_whisper(revision.snapshot_path):
                return read_whisper_card(revision.snapshot_path, repository.repo_id)
    return None


def _weights(path: Path) -> Path | None:
    return next((path / name for name in WEIGHT_FILES if (path / name).is_file()), None)
