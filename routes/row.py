"""One row's answer: from token deltas to parts, a finish reason, scores and the counts of `usage`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from actors.generation.messages import Delta, Score
from routes.detokenize import Detokenizer
from routes.parts import Part, Reasoning, Splitter, ToolCall, joined
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
        """Tokens generated: an end token counts, tokens after a stop string or the only call allowed do not."""
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
        parts: list[Part] = []
        for token in self._worded(delta):
            if self._complete:
                break
            parts += self._take(token)
        if delta.finish is not None and not self._complete:
            self.completion_tokens += len(delta.tokens) - len(self._worded(delta))
            parts += self._end()
        if delta.scores:
            counted = self.completion_tokens - len(self.scored)
            self.scored += list(zip(delta.tokens, delta.scores, strict=True))[:counted]
        self.finish = self._finish(delta)
        return joined(parts)

    @property
    def _complete(self) -> bool:
        """Whether a stop string, or the only call allowed, has come: no later token counts."""
        return self._matcher.matched is not None or self._splitter.done

    def _take(self, token: int) -> list[Part]:
        """Tokens are split one by one, so that every count is the same however they are dealt out."""
        self.completion_tokens += 1
        text = self._matcher.feed(self._detokenizer.feed(token))
        parts = self._splitter.feed(text) if text else []
        if self._matcher.matched is not None:
            parts = [*parts, *self._splitter.flush()]
        return self._counted(parts)

    def _end(self) -> list[Part]:
        """What was held back when the row ended."""
        text = self._matcher.feed(self._detokenizer.flush()) + self._matcher.flush()
        parts = self._splitter.feed(text) if text else []
        return self._counted([*parts, *self._splitter.flush()])

    def _counted(self, parts: list[Part]) -> list[Part]:
        self.calls += sum(isinstance(part, ToolCall) for part in parts)
        self._count_reasoning(parts)
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
