"""The splitter of models that do not think aloud. Pure."""

from __future__ import annotations

from routes.parts import Content, Part


class PlainSplitter:
    """A `Splitter` that finds nothing: all text is content, at once."""

    done = False
    """An answer never ends for its thinking's sake."""

    @property
    def buffering(self) -> bool:
        """Never."""
        return False

    def feed(self, text: str) -> list[Part]:
        """The text, as content."""
        return [Content(text)] if text else []

    def flush(self) -> list[Part]:
        """Nothing is ever held back."""
        return []
