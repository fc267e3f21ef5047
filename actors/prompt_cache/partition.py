"""What divides one model's prefixes: requests of different partitions never use, see or time each other's. Pure."""

from __future__ import annotations

import hashlib


def partition_of(salt: str | None) -> str:
    """The partition of a request with this `cache_salt`; empty for a request without one.

    A salt may be a tenant's secret, so only its hash travels, is kept and is written to disk.
    """
    return "" if salt is None else "salt-" + hashlib.sha256(salt.encode("utf-8", "surrogatepass")).hexdigest()[:32]
