"""What every family of tool-call markup has to say of itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from routes.parts import ToolCall

Tools = Mapping[str, Mapping[str, object]]
"""The functions a request offers: name -> JSON schema of its parameters (empty when it has none)."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The markup is complete."""

    calls: tuple[ToolCall, ...]
    """At least one, in order; their names are in `Tools`."""
    end: int
    """Characters of the text that belong to the markup."""


@dataclass(frozen=True, slots=True)
class NotMarkup:
    """What looked like markup is plain text: broken beyond repair, or a call of a function nobody offered."""

    end: int
    """Characters that are certainly plain, at least one; the search for markup goes on after them."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """More text is needed."""


Scan = Calls | NotMarkup | Incomplete


class ToolFormat(Protocol):
    """One family."""

    @property
    def name(self) -> str:
        """As settings name it, such as `hermes`."""
        ...

    @property
    def openers(self) -> tuple[str, ...]:
        """Literals that begin markup, wherever they stand. Never empty strings."""
        ...

    @property
    def bare(self) -> tuple[str, ...]:
        """Literals that begin markup only as the first thing of an answer (leading whitespace aside), such as `{`."""
        ...

    @property
    def closers(self) -> tuple[str, ...]:
        """Literals that may complete markup. Text is scanned again only when one has come, and at its end."""
        ...

    @property
    def markers(self) -> tuple[str, ...]:
        """Literals of the markup that a tokenizer may have as special tokens, which would not be shown otherwise."""
        ...

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        """Look at text that begins with an opener (or a bare one).

        Args:
            text: everything from the opener on.
            tools: what may be called.
            final: there will be no more text: repair what was cut off or broken, and never answer `Incomplete`.
        """
        ...
