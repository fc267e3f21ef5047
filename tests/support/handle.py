"""An actor of this process, called as one of Ray's is."""

from __future__ import annotations

from typing import Any


class Handle:
    """Stands in for the handle of a deployment or of a named actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def options(self, **options: Any) -> Handle:
        """Streaming calls are what they are here."""
        return self

    def __getattr__(self, name: str) -> Method:
        return Method(getattr(self._actor, name))


class Method:
    """What `handle.name` is."""

    def __init__(self, call: Any) -> None:
        self.remote = call
