"""One clip from samples to segments: its spectrogram, its place in the text, and the steps that need the model.

`feed` and `finish` may be called from any thread, `advance` from the engine's; they may overlap.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from actors.transcription.decoder import Heard, WhisperDecoder
from actors.transcription.mel import LogMel
from actors.transcription.options import TranscriptionOptions
from actors.transcription.search import GoOn
from actors.transcription.take import Segment, Take, Window
from actors.transcription.vocabulary import VocabularyReport, opening, plainly
from actors.transcription.wav import Samples
from actors.transcription.words import add_words


class Clip:
    """A clip that may still grow."""

    def __init__(self, mels: int, options: TranscriptionOptions) -> None:
        self.options = options
        self.language: str | None = options.language
        """What is spoken; None while it is not known."""
        self.vocabulary: VocabularyReport | None = None
        """What became of the vocabulary; None before the first window and without one."""
        self._mel = LogMel(mels)
        self._lock = threading.Lock()
        self._take: Take | None = None
        self._tokenizer: Any = None

    @property
    def samples(self) -> int:
        """Samples received, 16,000 a second."""
        return self._mel.samples

    @property
    def frames(self) -> int:
        """Spectrogram frames of the clip so far, 100 a second."""
        return self._mel.content

    @property
    def done_frames(self) -> int:
        """Frames that are transcribed."""
        return min(self._take.seek, self.frames) if self._take is not None else 0

    @property
    def nbytes(self) -> int:
        """Bytes that it keeps of what is not transcribed."""
        return self._mel.nbytes

    @property
    def segments(self) -> list[Segment]:
        return self._take.segments if self._take is not None else []

    @property
    def text(self) -> str:
        return self._take.text if self._take is not None else ""

    def feed(self, samples: Samples) -> None:
        """Append what was heard next. Blocks for the spectrogram, 1 ms a second of sound."""
        with self._lock:
            self._mel.feed(samples)

    def fill(self, blocks: Iterable[Samples]) -> int:
        """Append all of a clip, which is over then. How many samples those were."""
        for block in blocks:
            self.feed(block)
        self.finish()
        return self.samples

    def finish(self) -> None:
        """The clip is over."""
        with self._lock:
            self._mel.finish()

    @property
    def waiting(self) -> bool:
        """Whether `advance` has something to do."""
        with self._lock:
            return self._next() is not None

    def advance(self, decoder: WhisperDecoder, go_on: GoOn) -> list[Segment]:
        """Transcribe the next window, if it is complete. The segments it gave, if any.

        `go_on` is asked between two tokens; once it has said False the clip is of no more use.
        """
        with self._lock:
            window = self._next()
            if window is None:
                return []
            mel = self._mel.window(window.seek, window.size)
        take, heard = self._ready(decoder), decoder.hear(mel, self.options)
        decoded = decoder.decode(heard, take.prompt, self._tokenizer, self.options, window.seek, go_on)
        segments = take.cut(window, decoded)
        if self.options.word_timestamps and segments:
            self._add_words(decoder, heard, window, segments)
        found = take.commit(window, decoded, segments)
        with self._lock:
            self._mel.forget(take.seek)
        return found

    def peek(self, decoder: WhisperDecoder, go_on: GoOn) -> str:
        """What the window that is not complete yet might say. Changes nothing."""
        with self._lock:
            seek = self._take.seek if self._take is not None else 0
            size = min(self._mel.ready - seek, self._mel.content - seek)
            if size <= 0:
                return ""
            mel = self._mel.window(seek, min(size, 3000))
        take, heard = self._ready(decoder), decoder.hear(mel, self.options)
        return decoder.decode(heard, take.prompt, self._tokenizer, self.options, seek, go_on).text

    def _next(self) -> Window | None:
        mel = self._mel
        if self._take is not None:
            return self._take.next(mel.ready, mel.content, mel.finished)
        return Take(self.options, 0, 0, lambda tokens: "").next(mel.ready, mel.content, mel.finished)

    def _ready(self, decoder: WhisperDecoder) -> Take:
        """The state of the clip; made with the first window, when the language can be told."""
        if self._take is None:
            language = self.language or self._detect(decoder)
            tokenizer = decoder.tokenizer(self.options, language)
            tokens, self.vocabulary = opening(
                self.options.prompt, self.options.vocabulary, plainly(tokenizer), decoder.budget
            )
            self._tokenizer = tokenizer
            self._take = Take(self.options, tokenizer.timestamp_begin, tokenizer.eot, tokenizer.decode, tokens)
            self.language = language
        return self._take

    def _detect(self, decoder: WhisperDecoder) -> str:
        if not decoder.model.is_multilingual:
            return "en"
        with self._lock:
            mel = self._mel.opening()
        return decoder.language(decoder.hear(mel, self.options))

    def _add_words(self, decoder: WhisperDecoder, heard: Heard, window: Window, segments: list[Segment]) -> None:
        assert self._take is not None
        add_words(decoder.model, heard.features, self._tokenizer, segments, window.size, self._take.last_speech_s)
