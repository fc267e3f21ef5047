"""The formats that share their tags, told apart call by call: what a model of no other family writes. Pure.

Models mix these: one trained on JSON between tags falls into Qwen's elements, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from routes.tools.format import Scan, ToolFormat, Tools
from routes.tools.glm import GLM
from routes.tools.hermes import HERMES
from routes.tools.minicpm import MINICPM
from routes.tools.qwen_xml import QWEN_XML

_ELEMENTS: Final = (QWEN_XML, GLM, MINICPM)
_ALL: Final[tuple[ToolFormat, ...]] = (HERMES, *_ELEMENTS)


@dataclass(frozen=True, slots=True)
class TaggedFormat:
    """JSON between tags, and the elements of Qwen, GLM and MiniCPM."""

    name: str = "tagged"
    openers: tuple[str, ...] = tuple(dict.fromkeys(opener for format in _ALL for opener in format.openers))
    markers: tuple[str, ...] = tuple(dict.fromkeys(marker for format in _ALL for marker in format.markers))
    bare: tuple[str, ...] = ()
    closers: tuple[str, ...] = tuple(dict.fromkeys(closer for format in _ALL for closer in format.closers))

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        """Look at text that begins with an opener."""
        # Elements come first: the JSON in a value would else be taken for the call.
        for format in _ELEMENTS:
            if format.begins(text):
                return format.scan(text, tools, final)
        owner = HERMES if text.startswith(HERMES.openers) else next(f for f in _ELEMENTS if text.startswith(f.openers))
        return owner.scan(text, tools, final)


TAGGED: Final = TaggedFormat()
"""The format of every model that none of the others is detected for."""

FORMATS: Final[tuple[ToolFormat, ...]] = (TAGGED,)

_MARKS: Final = ("<tool_call>", "<function name=")


def detects(template: str, tokens: frozenset[str]) -> ToolFormat | None:
    """This format if the template or the tokens have one of its tags. `<function=` alone may also be Llama's."""
    return TAGGED if any(mark in template or mark in tokens for mark in _MARKS) else None
