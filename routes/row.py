"""One row's answer: from token deltas to text, a finish reason and the counts of `usage`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from actors.generation.messages import Delta
from routes.detokenize import Detokenizer
from routes.stops import StopMatcher


class RowText:
    """Feeds on deltas; `finish` says when there is nothing more to come."""

    def __init__(self, detokenizer: Detokenizer, stops: Sequence[str]) -> None:
        self._detokenizer = detokenizer
        self._matcher = StopMatcher(stops)
        self.finish: str | None = None
        """`stop` (end token or stop string) or `length`; None while the row runs."""
        self.completion_tokens = 0
        """Tokens generated: an end token counts, tokens after a stop string do not."""
        self.cached_tokens = 0
        """Prompt tokens that came from the prompt cache."""

    def feed(self, delta: Delta) -> str:
        """Take the next delta and return the text that may be shown. After `finish` nothing is taken any more."""
        if self.finish is not None:
            return ""
        if delta.cached_tokens is not None:
            self.cached_tokens = delta.cached_tokens
        shown = [self._take(token) for token in self._worded(delta)]
        if self._matcher.matched is None and delta.finish is not None:
            self.completion_tokens += len(delta.tokens) - len(self._worded(delta))
            shown += [self._matcher.feed(self._detokenizer.flush()), self._matcher.flush()]
        self.finish = "stop" if self._matcher.matched is not None else delta.finish
        return "".join(shown)

    def _worded(self, delta: Delta) -> Sequence[int]:
        """The tokens that are text: all but a closing end token."""
        return delta.tokens[:-1] if delta.finish == "stop" else delta.tokens

    def _take(self, token: int) -> str:
        if self._matcher.matched is not None:
            return ""
        self.completion_tokens += 1
        return self._matcher.feed(self._detokenizer.feed(token))
