"""GLM's markup: `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`. Pure."""

from __future__ import annotations

import re
from typing import Final

from routes.tools.elements import ElementFormat, Elements
from routes.tools.format import ToolFormat

_ELEMENTS: Final = Elements(
    head=re.compile(r"<tool_call>\s*(?P<name>[^\s<>{}]+)(?=\s*(?:<arg_key>|</tool_call>))"),
    key=re.compile(r"\s*<arg_key>\s*(?P<key>[^<>]+?)\s*</arg_key>\s*<arg_value>"),
    tail=re.compile(r"\s*</tool_call>"),
    last_tail=re.compile(r"\s*(?:</tool_call>|\Z)"),
    value_end="</arg_value>",
)

GLM: Final = ElementFormat(
    name="glm",
    openers=("<tool_call>",),
    closers=("</tool_call>",),
    markers=("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    alone=_ELEMENTS,
    wrapped=None,
)
"""GLM 4.5 and later. Values are raw text, with nothing around them."""

FORMATS: Final[tuple[ToolFormat, ...]] = (GLM,)
