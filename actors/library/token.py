"""The hub token that a person entrusted to this server. Kept in a file of mode 0600, never logged, never answered."""

from __future__ import annotations

import os
import re

from actors.errors import InvalidRequest
from actors.library.storage import Storage

_FILE = "hf.json"
_TOKEN = re.compile(r"[\x21-\x7e]{1,512}")


class TokenStore:
    """Reads the file at every question, so that all processes agree."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self) -> str | None:
        """The saved token; None when there is none."""
        content = self._storage.read(_FILE)
        token = content.get("token") if isinstance(content, dict) else None
        return token if isinstance(token, str) and token else None

    def for_hub(self) -> str | None:
        """The token to use: the environment's goes first. None leaves it to the hub library to find one."""
        return None if os.environ.get("HF_TOKEN") else self.read()

    def save(self, token: str) -> None:
        """Replace the token. Raises OSError."""
        self._storage.write(_FILE, {"token": token})

    def forget(self) -> None:
        """Delete the token. May be repeated. Raises OSError."""
        self._storage.remove(_FILE)


def checked(token: str) -> str:
    """A token that can travel in a header. Raises InvalidRequest, which does not repeat it."""
    token = token.strip()
    if not token:
        raise InvalidRequest("token required")
    if _TOKEN.fullmatch(token) is None:
        raise InvalidRequest("token must be up to 512 printable ASCII characters without spaces")
    return token
