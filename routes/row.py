"""One row's answer: from token deltas to parts, a finish reason, scores and the counts of `usage`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from actors.generation.messages import Delta, Score
from routes.detokenize import Detokenizer
from routes.parts import Part, Reasoning, Splitter, ToolCall
from routes.stops import StopMatcher


class RowAnswer:
    """Feeds on deltas; `finish` says when there is nothing more to come."""

    def __init__(self, detokenizer: Detokenizer, stops: Sequence[str], splitter: Splitter) -> None:
        self._detokenizer = detokenizer
        self._matcher = StopMatcher(stops)
        self._splitter = splitter
        self.finish: str | None = None
        """`stop` (end token, stop string or complete grammar), `length` or `tool_calls`; None while the row runs."""
        self.completion_tokens = 0
        """Tokens generated: an end token counts, tokens after a stop string do not."""
        self.cached_tokens = 0
        """Prompt tokens that came from the prompt cache."""
        self.reasoning_tokens = 0
        """Of the tokens generated, those of thinking blocks; markup counts with what follows it."""
        self._untold = 0
        self.calls = 0
        """Tool calls so far."""
        self.scored: list[tuple[int, Score]] = []
        """Counted tokens and their scores, if the row asked for scores."""

    @property
    def stop(self) -> str | None:
        """The stop string that ended it, if one did."""
        return self._matcher.matched

    @property
    def buffering(self) -> bool:
        """Whether a tool call is being held back until it is complete."""
        return self._splitter.buffering

    def feed(self, delta: Delta) -> list[Part]:
        """Take the next delta and return what may be shown. After `finish` nothing is taken any more."""
        if self.finish is not None:
            return []
        if delta.cached_tokens is not None:
            self.cached_tokens = delta.cached_tokens
        text = "".join([self._take(token) for token in self._worded(delta)])
        ended = delta.finish is not None and self._matcher.matched is None
        if ended:
            self.completion_tokens += len(delta.tokens) - len(self._worded(delta))
            text += self._matcher.feed(self._detokenizer.flush()) + self._matcher.flush()
        if delta.scores:
            counted = self.completion_tokens - len(self.scored)
            self.scored += list(zip(delta.tokens, delta.scores, strict=True))[:counted]
        parts = self._splitter.feed(text) if text else []
        if ended or self._matcher.matched is not None:
            parts += self._splitter.flush()
        self.calls += sum(isinstance(part, ToolCall) for part in parts)
        self._count_reasoning(parts)
        self.finish = self._finish(delta)
        return parts

    def _count_reasoning(self, parts: Sequence[Part]) -> None:
        """Tokens belong to the part that they complete."""
        if not parts:
            return
        if isinstance(parts[-1], Reasoning):
            self.reasoning_tokens += self.completion_tokens - self._untold
        self._untold = self.completion_tokens

    def _finish(self, delta: Delta) -> str | None:
        if self._splitter.done:
            return "tool_calls"
        finish = "stop" if self._matcher.matched is not None else delta.finish
        if finish in ("stop", "complete"):
            return "tool_calls" if self.calls else "stop"
        return finish

    def _worded(self, delta: Delta) -> Sequence[int]:
        """The tokens that are text: all but a closing end token."""
        return delta.tokens[:-1] if delta.finish == "stop" else delta.tokens

    def _take(self, token: int) -> str:
        if self._matcher.matched is not None:
            return ""
        self.completion_tokens += 1
        return self._matcher.feed(self._detokenizer.feed(token))
