"""The thought channel of Gemma 4: `<|channel>thought`, a newline, text, `<channel|>`. Pure."""

from __future__ import annotations

from routes.reasoning.tags import TagSplitter

START = "<|channel>thought"
END = "<channel|>"


class ChannelSplitter(TagSplitter):
    """A `Splitter` that takes thought blocks as reasoning wherever they stand.

    The brackets are special tokens, which an answer's own words cannot be; so a model may think again between two
    pieces of an answer. Channels of other names have never been seen and are content, markers included.
    """

    def __init__(self, opened: bool) -> None:
        """`opened`: the prompt ended inside a thought block."""
        super().__init__(START, END, opened, anywhere=True)
