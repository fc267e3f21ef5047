"""What the families share that put a section around all calls, and literals around each. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from routes.tools.format import Scan, Tools
from routes.tools.reading import scan_section


@dataclass(frozen=True, slots=True)
class Section(ABC):
    """A family whose calls stand in sections. It says what a call looks like, and which literals there are."""

    name: str
    """As settings name it."""
    section: tuple[str, str]
    """What stands around all calls."""
    call: tuple[str, str]
    """What stands around each call."""

    @property
    def openers(self) -> tuple[str, ...]:
        """A model that forgets the section still marks its calls."""
        return self.section[0], self.call[0]

    @property
    def bare(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    @property
    def closers(self) -> tuple[str, ...]:
        """The section's."""
        return (self.section[1],)

    @property
    @abstractmethod
    def markers(self) -> tuple[str, ...]:
        """Every literal of the markup, for special tokens that would not be shown otherwise."""

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        """Look at text that begins with an opener."""
        return scan_section(text, self.section, self.call[0], self._read, tools, final)

    @abstractmethod
    def _read(self, text: str, at: int, tools: Tools, final: bool) -> tuple[str, dict[str, object], int]:
        """Read a call from behind its opener: name, arguments and where its closer ends. Raises `Cut` and `Broken`."""
