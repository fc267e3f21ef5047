"""MiniMax's markup: calls as `<invoke name="…"><parameter name="…">value</parameter></invoke>` in a wrapper. Pure."""

from __future__ import annotations

import re
from typing import Final

from routes.tools.elements import ElementFormat, Elements
from routes.tools.format import ToolFormat

_QUOTED: Final = r"[\"']?(?P<{}>[^\"'<>\n]+?)[\"']?"


def _format(name: str, wrapper: tuple[str, str], prefix: str) -> ElementFormat:
    """The markup in a wrapper, with a prefix to the names of the tags inside."""
    ends = rf"\s*</{prefix}invoke>(?=\s*(?:<{prefix}invoke\s|{wrapper[1]}|{wrapper[0]}))"
    elements = Elements(
        head=re.compile(rf"<{prefix}invoke\s[^<>]*?\bname\s*=\s*{_QUOTED.format('name')}\s*>"),
        key=re.compile(rf"\s*<{prefix}parameter\s[^<>]*?\bname\s*=\s*{_QUOTED.format('key')}(?:\s[^<>]*)?>"),
        tail=re.compile(ends),
        last_tail=re.compile(rf"\s*(?:</{prefix}invoke>|\Z)"),
        value_end=f"</{prefix}parameter>",
    )
    return ElementFormat(name, wrapper[:1], wrapper[1:], markers=wrapper, alone=None, wrapped=elements, wrapper=wrapper)


MINIMAX: Final = _format("minimax", ("<minimax:tool_call>", "</minimax:tool_call>"), "")
"""MiniMax M2. Values are raw text, with nothing around them."""

MUSE_SPARK: Final = _format("muse_spark", ("<atem:function_calls>", "</atem:function_calls>"), "atem:")
"""Muse Spark's tags have a prefix."""

FORMATS: Final[tuple[ToolFormat, ...]] = (MINIMAX, MUSE_SPARK)


def detects(template: str, tokens: frozenset[str]) -> ToolFormat | None:
    """The format whose wrapper stands in the template or among the tokens."""
    for format in (MINIMAX, MUSE_SPARK):
        if format.wrapper[0] in template or format.wrapper[0] in tokens:
            return format
    return None
