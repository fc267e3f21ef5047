"""Which models the hub's local cache holds. Reads configurations and headers of weights, never the weights.

Nothing here loads MLX or follows a name that a request brought: folders are found by listing the cache.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from actors.errors import StartError
from actors.library.messages import LibraryEntry
from actors.models import architecture
from actors.models.card import read_card
from actors.models.embedding_card import ENCODERS, is_embedding_model, read_embedding_card
from actors.models.experts import expert_bytes
from actors.models.fit import Fit, Load, assess
from actors.models.layers import read_layers
from actors.models.machine import Machine

log = logging.getLogger("troupe.library")

ASSESSED_CONTEXT = 8192
"""Tokens that a model in the library is assessed with."""

_PREFIX = "models--"


def scan(hub_cache: Path, machine: Machine, usable: int) -> tuple[LibraryEntry, ...]:
    """Every repository with a model's files, smallest first. Blocks for milliseconds a repository.

    Args:
        hub_cache: the hub's cache folder; one that does not exist is empty.
        machine: where the models are assessed.
        usable: bytes that a model may use there.
    """
    entries = [_entry(folder, machine, usable) for folder in _repositories(hub_cache)]
    return tuple(sorted(filter(None, entries), key=lambda entry: (entry.size_bytes, entry.repo_id)))


def _repositories(hub_cache: Path) -> Iterator[Path]:
    try:
        yield from (path for path in hub_cache.iterdir() if path.name.startswith(_PREFIX) and path.is_dir())
    except OSError as error:
        log.debug("the hub cache %s cannot be listed: %s", hub_cache, error)


def _entry(repository: Path, machine: Machine, usable: int) -> LibraryEntry | None:
    """A repository's row; None when no snapshot of it holds a model, or when it goes away meanwhile."""
    try:
        snapshot = _canonical(repository)
        if snapshot is None:
            return None
        files = sorted(snapshot.glob("*.safetensors"))
        size = sum(path.stat().st_size for path in files)
    except OSError as error:
        log.warning("%s cannot be read: %s", repository, error)
        return None
    repo_id = repository.name.removeprefix(_PREFIX).replace("--", "/")
    config = _config(snapshot)
    bits, group = _quantization(config)
    return LibraryEntry(
        repo_id=repo_id,
        path=snapshot,
        model_type=config["model_type"] if isinstance(config.get("model_type"), str) else None,
        size_bytes=size,
        quant_bits=bits,
        quant_group_size=group,
        tier=tier(config),
        servable=_servable(snapshot, repo_id),
        fit=_fit(config, files, size, machine, usable),
    )


def _canonical(repository: Path) -> Path | None:
    """The snapshot that `main` names, else the newest one; only those with a configuration and weights count."""
    snapshots = [path for path in (repository / "snapshots").glob("*/") if _holds_model(path)]
    try:
        named = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        named = ""
    for snapshot in snapshots:
        if snapshot.name == named:
            return snapshot
    return max(snapshots, key=lambda path: path.stat().st_mtime, default=None)


def _holds_model(snapshot: Path) -> bool:
    return (snapshot / "config.json").is_file() and any(path.is_file() for path in snapshot.glob("*.safetensors"))


def _config(snapshot: Path) -> dict[str, Any]:
    """config.json; empty when it cannot be read."""
    try:
        content = json.loads((snapshot / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def tier(config: dict[str, Any]) -> str | None:
    """`targeted`, `generic` or None: see `LibraryEntry`."""
    if config.get("model_type") in ENCODERS:
        return "targeted"
    module = architecture.module_of(config)
    if module is None:
        return None
    return "targeted" if module == config["model_type"] else "generic"


def _quantization(config: dict[str, Any]) -> tuple[int | None, int | None]:
    stated = config.get("quantization") or config.get("quantization_config")
    if not isinstance(stated, dict):
        return None, None
    bits, group = stated.get("bits"), stated.get("group_size")
    return (bits if type(bits) is int else None), (group if type(group) is int else None)


def _servable(snapshot: Path, repo_id: str) -> bool:
    try:
        if is_embedding_model(snapshot, repo_id):
            read_embedding_card(snapshot, repo_id)
        else:
            read_card(snapshot, repo_id)
    except StartError as error:
        log.debug("%s cannot be served: %s", repo_id, error.message)
        return False
    except (
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:  # files of strangers hold the strangest things
        log.warning("%s cannot be read: %s", repo_id, error)
        return False
    return True


def _fit(config: dict[str, Any], files: list[Path], size: int, machine: Machine, usable: int) -> Fit | None:
    try:
        layers = read_layers(config)
        experts = expert_bytes(files) if layers.experts else 0
        return assess(Load(layers, size, experts), usable, machine.bandwidth_gbs, ASSESSED_CONTEXT)
    except (OSError, ValueError, TypeError, ZeroDivisionError, RecursionError) as error:
        log.debug("no estimate: %s", error)
        return None
