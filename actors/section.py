"""What every part of the configuration is made of: strict sections, sizes, secrets."""

from __future__ import annotations

import os
import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)


class Section(BaseModel):
    """Unknown keys and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _bytes(value: object) -> object:
    """Accept `8GiB`, `500 MB` or a plain number of bytes."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value)
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError("should be a number of bytes or a size such as 500MB or 8GiB")
    return int(float(match[1]) * _UNITS[match[2].lower()])


Size = Annotated[int, Field(ge=0), BeforeValidator(_bytes)]
"""A number of bytes; text such as `8GiB` or `500MB` is accepted."""


def _revealed(value: object) -> object:
    """`env:NAME` stands for what the environment variable NAME holds."""
    if not isinstance(value, str) or not value.startswith("env:"):
        return value
    name = value.removeprefix("env:")
    if not os.environ.get(name):
        raise ValueError(f"the environment has no {name}")
    return os.environ[name]


Secret = Annotated[SecretStr, Field(min_length=1), BeforeValidator(_revealed)]
"""Text that no log and no `repr` shows; `env:NAME` takes it from the environment."""
