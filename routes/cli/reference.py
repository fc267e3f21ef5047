"""docs/configuration.md, made from the settings model so that the two cannot drift apart."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from actors.settings import Settings

HEAD = """# Configuration

Everything `args` of an application in configs/*.yaml may say. An unknown or ill-typed key ends the start with its path
and what is allowed there. Sizes are bytes, or text such as `500MB` or `8GiB`.

This page is made by `troupe reference`; edit `actors/settings.py` and `actors/server_settings.py`.
"""

_BOUNDS = ((Ge, "ge", "at least"), (Gt, "gt", "above"), (Le, "le", "at most"), (Lt, "lt", "below"))


def markdown() -> str:
    """The whole page."""
    return HEAD + "".join(_section("", Settings))


def _section(path: str, model: type[BaseModel]) -> Iterator[str]:
    fields = model.model_fields
    plain = {name: info for name, info in fields.items() if not _is_section(info)}
    if path:
        yield f"\n## {path}\n\n{(model.__doc__ or '').strip()}\n"
    if plain:
        yield "\n| key | type | default | meaning |\n|-|-|-|-|\n"
    for name, info in plain.items():
        yield f"| `{f'{path}.' if path else ''}{name}` | {_type(info)} | {_default(info)} | {info.description} |\n"
    for name, info in fields.items():
        below = f"{path}.{name}" if path else name
        if _is_section(info) and isinstance(info.annotation, type):
            yield from _section(below, info.annotation)
        elif (entry := _entry(info.annotation)) is not None:
            yield from _section(f"{below}[]", entry)


def _is_section(info: FieldInfo) -> bool:
    return isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel)


def _entry(annotation: Any) -> type[BaseModel] | None:
    """The section that each entry of a list is."""
    first = next(iter(get_args(annotation)), None) if get_origin(annotation) is tuple else None
    return first if isinstance(first, type) and issubclass(first, BaseModel) else None


def _default(info: FieldInfo) -> str:
    value = info.default
    if value is PydanticUndefined:
        return ""
    if isinstance(value, tuple):
        value = ", ".join(map(str, cast("tuple[object, ...]", value))) or "none"
    shown = "unset" if value is None else str(value)
    return f"`{shown}`"


def _type(info: FieldInfo) -> str:
    bounds = [
        f"{word} {getattr(part, name):g}"
        for part in info.metadata
        for kind, name, word in _BOUNDS
        if isinstance(part, kind)
    ]
    return ", ".join([_name(info.annotation), *bounds])


def _name(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _name(parts[0])
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(_name(part) for part in parts if part is not NoneType)
    if origin is tuple:
        return "list of mappings" if _entry(annotation) else f"list of {_name(parts[0])}"
    return {"str": "text", "SecretStr": "text", "int": "whole number", "float": "number", "bool": "true or false"}[
        annotation.__name__
    ]
