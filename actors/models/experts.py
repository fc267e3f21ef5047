"""How many bytes of a checkpoint are experts that compete for each token. Reads headers only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_LARGEST_HEADER = 100_000_000
_COMPETING = re.compile(r"\.(experts|switch_mlp|switch_glu)\.")


def expert_bytes(files: Iterable[Path]) -> int:
    """Bytes of the tensors of routed experts in these safetensors files; shared experts do not count.

    Raises:
        OSError: a file cannot be read.
        ValueError: a header is none.
    """
    return sum(_tensor_size(entry) for path in files for name, entry in _header(path) if _COMPETING.search(name))


def _header(path: Path) -> list[tuple[str, Any]]:
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > _LARGEST_HEADER:
            raise ValueError(f"{path} is no safetensors file")
        content = json.loads(stream.read(length))
    if not isinstance(content, dict):
        raise ValueError(f"{path} is no safetensors file")
    return [(name, entry) for name, entry in content.items() if name != "__metadata__"]


def _tensor_size(entry: Any) -> int:
    try:
        start, end = entry["data_offsets"]
        return int(end) - int(start)
    except (TypeError, KeyError) as error:
        raise ValueError("a tensor has no place in its file") from error
