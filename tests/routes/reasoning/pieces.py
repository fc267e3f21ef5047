"""What the tests of splitters share."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from routes.parts import Content, Part, Reasoning, Splitter


def joined(parts: Sequence[Part]) -> list[Part]:
    """Neighbours of one kind as one part."""
    result: list[Part] = []
    for part in parts:
        last = result[-1] if result else None
        if isinstance(part, Content) and isinstance(last, Content):
            result[-1] = Content(last.text + part.text)
        elif isinstance(part, Reasoning) and isinstance(last, Reasoning):
            result[-1] = Reasoning(last.text + part.text)
        else:
            result.append(part)
    return result


def run(splitter: Splitter, *pieces: str) -> list[Part]:
    """Everything a splitter makes of a text that comes in pieces."""
    parts = [part for piece in pieces for part in splitter.feed(piece)] + splitter.flush()
    assert not splitter.buffering
    assert all(part.text for part in parts if isinstance(part, Content | Reasoning))
    return joined(parts)


def cut(text: str, data: st.DataObject) -> list[str]:
    """The text in pieces, some of them empty."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def shuffled(*words: str) -> st.SearchStrategy[str]:
    """Texts made of these words in any order, which all the odd cases consist of."""
    return st.lists(st.sampled_from(words), max_size=14).map("".join)
