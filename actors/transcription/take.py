"""One clip on its way to text: which window comes next, and what its tokens mean. Pure.

    while (window := take.next(mel.ready, mel.content, mel.finished)):
        decoded = decode the window behind take.prompt
        segments = take.cut(window, decoded)        # empty for silence
        give the words of the segments their times, where they are wanted
        take.commit(window, decoded, segments)

Windows follow the last timestamp of the one before, so they depend on each other and come in order. A clip that grows
gives the same windows as the whole one, since a window is taken once it is full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.transcription.mel import FRAMES_PER_S, WINDOW
from actors.transcription.options import TranscriptionOptions

_FRAMES_PER_POSITION = 2
_S_PER_POSITION = 0.02
_TRUSTED_UP_TO = 0.5
"""Text that was drawn at a higher temperature is no prompt for what follows."""


@dataclass(frozen=True, slots=True)
class Window:
    """Frames to transcribe."""

    seek: int
    """The first one, 10 ms each from the start of the clip."""
    size: int
    """How many, 3000 at most."""

    @property
    def start_s(self) -> float:
        return self.seek / FRAMES_PER_S


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the model made of a window."""

    tokens: list[int]
    """Text and timestamps."""
    text: str
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


@dataclass(slots=True)
class Word:
    """A word with its times, in seconds from the start of the clip."""

    word: str
    start: float
    end: float
    probability: float


@dataclass(slots=True)
class Segment:
    """A stretch of text. The fields are those of openai-whisper."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: list[Word] | None = None

    def plain(self) -> dict[str, Any]:
        """As it is sent."""
        found: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN}
        if self.words is not None:
            found["words"] = [
                {"word": word.word, "start": word.start, "end": word.end, "probability": word.probability}
                for word in self.words
            ]
        return found


_PLAIN = (
    "id",
    "seek",
    "start",
    "end",
    "text",
    "tokens",
    "temperature",
    "avg_logprob",
    "compression_ratio",
    "no_speech_prob",
)


@dataclass(slots=True)
class Take:
    """The state of one clip.

    Args:
        options: how it is transcribed.
        first_stamp: id of the timestamp 0.00; higher ids are later.
        end: id of the end token; lower ids are text.
        text_of: the text of text tokens.
        opening: tokens of what might have been said before.
    """

    options: TranscriptionOptions
    first_stamp: int
    end: int
    text_of: Callable[[Sequence[int]], str]
    opening: Sequence[int] = ()
    seek: int = 0
    segments: list[Segment] = field(default_factory=list)
    last_speech_s: float = 0.0
    """When the last word ended."""
    _said: list[int] = field(default_factory=list)
    _forgotten: int = 0
    """Tokens that later windows do not see."""

    def __post_init__(self) -> None:
        self._said = list(self.opening)

    def next(self, ready: int, content: int, finished: bool) -> Window | None:
        """The next window that is complete: a full one, or what is left of a clip that is over."""
        left = content - self.seek
        if left <= 0 or (not finished and ready - self.seek < WINDOW):
            return None
        return Window(self.seek, min(WINDOW, left))

    @property
    def prompt(self) -> list[int]:
        """What the next window follows."""
        return self._said[self._forgotten :]

    @property
    def text(self) -> str:
        """All text so far."""
        return self.text_of(self._said[len(self.opening) :])

    def cut(self, window: Window, decoded: Decoded) -> list[Segment]:
        """The segments of a window, without ids. None for silence, which is passed over in `commit`."""
        if self._silent(decoded):
            return []
        tokens = decoded.tokens
        ends = self._ends(tokens)
        if not ends:
            return [self._segment(window, decoded, tokens, 0.0, self._span(window, tokens))]
        found: list[Segment] = []
        for start, end in zip([0, *ends], ends, strict=False):
            piece = tokens[start:end]
            found.append(self._segment(window, decoded, piece, self._at(piece[0]), self._at(piece[-1])))
        return found

    def commit(self, window: Window, decoded: Decoded, segments: list[Segment]) -> list[Segment]:
        """Keep the segments and move on; the segments with their ids. Those without text stay, and are empty."""
        self.seek = self._following(window, decoded, segments)
        if (last := _last_word(segments)) is not None:
            self.last_speech_s = last
        for segment in segments:
            if segment.start == segment.end or not segment.text.strip():
                segment.text, segment.tokens = "", []
                segment.words = None if segment.words is None else []
            segment.id = len(self.segments)
            self.segments.append(segment)
            self._said += segment.tokens
        if segments and (not self.options.condition_on_previous_text or decoded.temperature > _TRUSTED_UP_TO):
            self._forgotten = len(self._said)
        return segments

    def _silent(self, decoded: Decoded) -> bool:
        limit, likely = self.options.no_speech_threshold, self.options.logprob_threshold
        if limit is None or not decoded.no_speech_prob > limit:
            return False
        return likely is None or not decoded.avg_logprob > likely

    def _ends(self, tokens: list[int]) -> list[int]:
        """Where segments end: between two timestamps, and at the end behind a single one."""
        stamps = [token >= self.first_stamp for token in tokens]
        ends = [place for place in range(1, len(tokens)) if stamps[place - 1] and stamps[place]]
        return [*ends, len(tokens)] if ends and _single_end(stamps) else ends

    def _following(self, window: Window, decoded: Decoded, segments: list[Segment]) -> int:
        """Where the next window begins: behind this one, or at its last timestamp when it ends within a segment."""
        whole = window.seek + window.size
        if not segments:
            return whole
        tokens = decoded.tokens
        stamps = [token >= self.first_stamp for token in tokens]
        ends = self._ends(tokens)
        single = _single_end(stamps)
        following = whole
        if ends and not single:
            following = window.seek + (tokens[ends[-1] - 1] - self.first_stamp) * _FRAMES_PER_POSITION
        if self.options.word_timestamps and not single:
            last = _last_word(segments)
            if last is not None and last > window.start_s:
                following = round(last * FRAMES_PER_S)
        # A window that leads nowhere would be taken for ever.
        return following if following > window.seek else whole

    def _span(self, window: Window, tokens: list[int]) -> float:
        """Seconds of a window that is one segment."""
        stamps = [token for token in tokens if token >= self.first_stamp]
        if stamps and stamps[-1] != self.first_stamp:
            return self._at(stamps[-1])
        return window.size / FRAMES_PER_S

    def _at(self, token: int) -> float:
        return (token - self.first_stamp) * _S_PER_POSITION

    def _segment(self, window: Window, decoded: Decoded, tokens: list[int], start: float, end: float) -> Segment:
        return Segment(
            id=-1,
            seek=window.seek,
            start=window.start_s + start,
            end=window.start_s + end,
            text=self.text_of([token for token in tokens if token < self.end]),
            tokens=list(tokens),
            temperature=decoded.temperature,
            avg_logprob=decoded.avg_logprob,
            compression_ratio=decoded.compression_ratio,
            no_speech_prob=decoded.no_speech_prob,
        )


def _single_end(stamps: list[bool]) -> bool:
    return stamps[-2:] == [False, True]


def _last_word(segments: list[Segment]) -> float | None:
    """When the last word of the segments ends; without words, when the last segment does."""
    for segment in reversed(segments):
        if segment.words:
            return segment.words[-1].end
    return segments[-1].end if segments else None
