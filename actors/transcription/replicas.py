"""Who the replicas of a Serve deployment are, for what concerns them all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import ray.util


async def replicas(application: str, deployment: str) -> list[str]:
    """Unique ids of the replicas that are up, in order. Cancelling it leaves the question unanswered."""
    listed = await asyncio.to_thread(ray.util.list_named_actors, all_namespaces=True)
    return named(application, deployment, listed)  # pyright: ignore[reportArgumentType]


def named(application: str, deployment: str, listed: Iterable[Mapping[str, str]]) -> list[str]:
    """Unique ids out of actors' names, which Serve makes of application, deployment and id. Pure."""
    prefix = f"SERVE_REPLICA::{application}#{deployment}#"
    return sorted(one["name"].removeprefix(prefix) for one in listed if one["name"].startswith(prefix))
