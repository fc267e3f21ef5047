"""What the current step did, collected by ingress replica and posted as one message each."""

from __future__ import annotations

from collections.abc import Callable

from actors.generation.messages import Delta, Failure, Mark, Score, StepEvents
from actors.generation.row import Row
from actors.ids import IngressId, RequestId


class _Growing:
    """A delta in the making; one a row and step."""

    __slots__ = ("cached", "failure", "finish", "marks", "scores", "tokens")

    def __init__(self, cached: int | None) -> None:
        self.tokens: list[int] = []
        self.scores: list[Score] = []
        self.marks: tuple[Mark, ...] = ()
        self.cached = cached
        self.finish: str | None = None
        self.failure: Failure | None = None


class Outgoing:
    """Engine thread only.

    Args:
        post: sends one message; must not block or raise.
    """

    def __init__(self, post: Callable[[IngressId, StepEvents], None]) -> None:
        self._post = post
        self._growing: dict[IngressId, dict[RequestId, _Growing]] = {}
        self._step = 0

    def token(self, row: Row, token: int, finish: str | None, score: Score | None = None) -> None:
        delta = self._of(row)
        delta.tokens.append(token)
        if score is not None:
            delta.scores.append(score)
        delta.finish = finish

    def replayed(self, row: Row) -> None:
        """Send again what was generated before a crash."""
        self._of(row).tokens += row.replay
        row.replay = []

    def failure(self, row: Row, failure: Failure) -> None:
        delta = self._of(row)
        delta.finish, delta.failure = "error", failure

    def post(self) -> None:
        """Send what has come together since the last call."""
        if not self._growing:
            return
        self._step += 1
        for ingress, rows in self._growing.items():
            deltas = tuple(
                Delta(
                    request_id,
                    tuple(delta.tokens),
                    delta.cached,
                    delta.finish,
                    delta.failure,
                    tuple(delta.scores),
                    delta.marks,
                )
                for request_id, delta in rows.items()
            )
            self._post(ingress, StepEvents(self._step, deltas))
        self._growing.clear()

    def _of(self, row: Row) -> _Growing:
        rows = self._growing.setdefault(row.request.ingress, {})
        delta = rows.get(row.request.request_id)
        if delta is None:
            delta = rows[row.request.request_id] = _Growing(None if row.started else min(row.cached, row.prompt_tokens))
            if row.marks is not None and not row.started:
                delta.marks = tuple(row.marks)
            row.started = True
        return delta
