"""Which architectures the installed mlx-lm has, read from its files without importing it (or MLX)."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_DEFINES_MODEL = re.compile(r"^(class Model\b|from \.\w+ import .*\bModel\b)", re.MULTILINE)


def module_of(config: Mapping[str, Any]) -> str | None:
    """Name of the mlx-lm module that would load this config.json; None when there is none."""
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        return None
    name = _renamed(model_type, config.get("architectures") or ())
    # The name becomes part of a path, so it must not be able to leave the folder.
    known = _NAME.fullmatch(name) is not None and name in architectures()
    return name if known else None


@cache
def architectures() -> frozenset[str]:
    """Every module of mlx-lm that defines a model."""
    folder = _package() / "models"
    sources = ((path.stem, path.read_text(encoding="utf-8")) for path in folder.glob("*.py"))
    return frozenset(name for name, source in sources if _DEFINES_MODEL.search(source))


def _renamed(model_type: str, declared: object) -> str:
    names = [declared] if isinstance(declared, str) else list(declared) if isinstance(declared, list | tuple) else []
    by_type, by_architecture = _tables()
    for name in names:
        if isinstance(name, str) and (model_type, name) in by_architecture:
            return by_architecture[model_type, name]
    return by_type.get(model_type, model_type)


@cache
def _tables() -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """mlx-lm's own renaming tables, evaluated as literals from its source."""
    tree = ast.parse((_package() / "utils.py").read_text(encoding="utf-8"))
    found: dict[str, Any] = {"MODEL_REMAPPING": {}, "MODEL_ARCHITECTURE_REMAPPING": {}}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in found:
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found["MODEL_REMAPPING"], found["MODEL_ARCHITECTURE_REMAPPING"]


def _package() -> Path:
    spec = importlib.util.find_spec("mlx_lm")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("mlx_lm is not installed", name="mlx_lm")
    return Path(spec.submodule_search_locations[0])
