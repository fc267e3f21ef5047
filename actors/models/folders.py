"""Where Troupe keeps what it fetched: one cache folder a user, safe to delete at any time."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """Folder for fetched and converted models; not created here.

    `$TROUPE_CACHE` wins, then `$XDG_CACHE_HOME/troupe`, then the platform's own place for caches.
    """
    if named := os.environ.get("TROUPE_CACHE"):
        return Path(named).expanduser()
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named).expanduser() / "troupe"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "troupe"
    return Path.home() / ".cache" / "troupe"
