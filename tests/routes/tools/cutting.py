"""Feeds a splitter with text in pieces, and joins what comes out."""

from collections.abc import Iterable

from hypothesis import strategies as st

from routes.parts import Content, Part
from routes.tools.format import ToolFormat, Tools
from routes.tools.splitter import ToolSplitter


def joined(parts: Iterable[Part]) -> list[Part]:
    whole: list[Part] = []
    for part in parts:
        last = whole[-1] if whole else None
        if isinstance(part, Content) and isinstance(last, Content):
            whole[-1] = Content(last.text + part.text)
        else:
            whole.append(part)
    return whole


def split(pieces: Iterable[str], format: ToolFormat, tools: Tools, parallel: bool = True) -> list[Part]:
    splitter = ToolSplitter(format, tools, parallel)
    parts = [part for piece in pieces for part in splitter.feed(piece)]
    return joined([*parts, *splitter.flush()])


def cut(text: str, data: st.DataObject) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
