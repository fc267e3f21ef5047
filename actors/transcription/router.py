"""Serve's way to the replicas of the transcriber. Decides nothing itself (pinning.py)."""

from __future__ import annotations

import time
from typing import Any

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from actors.transcription.pinning import Standing, pinned, roomiest

OPENING = "open_session"
"""The call that begins a session."""

TELLING_S = 5.0
"""How long it may take until a replica has told of a new session: two rounds, and a bit."""


class PinningRouter(RequestRouter):
    """Calls about a session go where it is; what is no matter of sessions goes to whoever has the least to do."""

    def initialize_state(self, target_sessions: int = 8, **kwargs: Any) -> None:
        """Called by Serve with the router's arguments."""
        self._target = target_sessions
        self._sent: dict[str, list[float]] = {}
        """When new sessions were sent to each replica, the last ones."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        by_name = {replica.replica_id.unique_id: replica for replica in candidate_replicas}
        if pending_request is None or not by_name:
            return [candidate_replicas]
        metadata = pending_request.metadata
        if metadata.session_id:
            return [[by_name[pinned(metadata.session_id, list(by_name))]]]
        if metadata.call_method == OPENING:
            name = roomiest([self._standing(name, replica) for name, replica in by_name.items()], self._target)
            self._sent[name].append(time.monotonic())
            return [[by_name[name]]]
        return [candidate_replicas]

    def _standing(self, name: str, replica: RunningReplica) -> Standing:
        told, recent = replica.routing_stats, time.monotonic() - TELLING_S
        self._sent[name] = [sent for sent in self._sent.get(name, ()) if sent > recent]
        sessions = float(told.get("sessions", 0)) + len(self._sent[name])
        return Standing(name, sessions, float(told.get("started", float("inf"))))
