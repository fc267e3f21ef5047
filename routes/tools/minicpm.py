"""MiniCPM's markup: `<function name="…"><param name="…">value</param></function>`. Pure."""

from __future__ import annotations

import re
from typing import Final

from routes.tools.elements import ElementFormat, Elements, unframed
from routes.tools.format import ToolFormat

_CDATA: Final = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_ENTITY: Final = re.compile(r"&(lt|gt|amp|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_MARGIN: Final = 200
"""Characters, mostly whitespace, between the tags of a value and its CDATA section."""
_NAMED: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def entities_decoded(text: str) -> str:
    """The text with XML's five entities and character references decoded. HTML's are left: `&copy` is a URL's part."""
    return _ENTITY.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    reference = match[1]
    if reference in _NAMED:
        return _NAMED[reference]
    code = int(reference[2:], 16) if reference[1] in "xX" else int(reference[1:])
    # Half a surrogate pair is no character, and nor is what lies beyond the last one.
    return match[0] if code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)


def _value(raw: str) -> str:
    """A CDATA section as it is (one split around `]]>` is put together again), anything else with entities decoded."""
    section = _CDATA.fullmatch(raw)
    if section is None:
        return entities_decoded(unframed(raw))
    return section[1].replace("]]]]><![CDATA[>", "]]>")


def _whole(text: str, start: int, end: int) -> bool:
    """A CDATA section hides all markup up to its own end."""
    begins = text[start : min(end, start + _MARGIN)].lstrip().startswith("<![CDATA[")
    return not begins or text[max(start, end - _MARGIN) : end].rstrip().endswith("]]>")


def _name(raw: str) -> str:
    quoted = len(raw) > 1 and raw[0] == raw[-1] and raw[0] in "\"'"
    return entities_decoded(raw[1:-1] if quoted else raw)


_QUOTED: Final = r"\"[^\"<>]+\"|'[^'<>]+'|[^\s\"'<>]+"

_ELEMENTS: Final = Elements(
    head=re.compile(rf"<function\s+name\s*=\s*(?P<name>{_QUOTED})\s*>"),
    key=re.compile(rf"\s*<param\s+name\s*=\s*(?P<key>{_QUOTED})\s*>"),
    tail=re.compile(r"\s*</function>"),
    last_tail=re.compile(r"\s*(?:</function>|\Z)"),
    value_end="</param>",
    value=_value,
    name=_name,
    whole=_whole,
)

MINICPM: Final = ElementFormat(
    name="minicpm",
    openers=("<function name=",),
    closers=("</function>",),
    markers=("<function", "</function>", "<param", "</param>", "<![CDATA[", "]]>"),
    alone=_ELEMENTS,
    wrapped=None,
)
"""Values with markup of their own come in CDATA sections."""

FORMATS: Final[tuple[ToolFormat, ...]] = (MINICPM,)
