"""Qwen's markup: `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from routes.tools.elements import ElementFormat, Elements, unframed
from routes.tools.format import ToolFormat

_ALONE: Final = Elements(
    head=re.compile(r"<function=\s*(?P<name>[^<>\n]+?)\s*>"),
    key=re.compile(r"\s*<parameter=\s*(?P<key>[^<>\n]+?)\s*>"),
    tail=re.compile(r"\s*</function>"),
    last_tail=re.compile(r"\s*(?:</function>|\Z)"),
    value_end="</parameter>",
    value=unframed,
)

# In the wrapper `</function>` alone may still be part of a value; what has to follow it says that it is none.
_WRAPPED: Final = replace(_ALONE, tail=re.compile(r"\s*</function>(?=\s*(?:</tool_call>|<tool_call>|<function=))"))

QWEN_XML: Final = ElementFormat(
    name="qwen_xml",
    openers=("<tool_call>", "<function="),
    closers=("</tool_call>", "</function>"),
    markers=("<tool_call>", "</tool_call>", "</function>", "</parameter>"),
    alone=_ALONE,
    wrapped=_WRAPPED,
    wrapper=("<tool_call>", "</tool_call>"),
)
"""Values are raw text between two line breaks; the outer `tool_call` may be missing."""

FORMATS: Final[tuple[ToolFormat, ...]] = (QWEN_XML,)
