"""A Whisper model that transcribes windows: each is encoded once, decoded as often as it takes. Engine thread only."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_whisper.tokenizer import get_tokenizer

from actors.transcription.graph import FaithfulGraph, FastGraph, Graph, encode
from actors.transcription.loading import LoadedWhisper
from actors.transcription.options import TranscriptionOptions
from actors.transcription.rules import TokenRules
from actors.transcription.search import Found, GoOn, follow, search
from actors.transcription.take import Decoded
from actors.transcription.wav import Samples


@dataclass(frozen=True, slots=True)
class Heard:
    """A window as the decoder hears it."""

    features: Any
    """The encoder's output, (1, positions, width)."""


class WhisperDecoder:
    """One model."""

    def __init__(self, loaded: LoadedWhisper) -> None:
        self.model = loaded.model
        self._dtype = loaded.dtype
        self._rules: dict[tuple[object, ...], TokenRules] = {}

    @property
    def budget(self) -> int:
        """Tokens that may stand before a window."""
        return self.model.dims.n_text_ctx // 2 - 1

    def tokenizer(self, options: TranscriptionOptions, language: str | None) -> Any:
        """mlx-whisper's tokenizer for a language and a task."""
        return get_tokenizer(
            self.model.is_multilingual,
            num_languages=self.model.num_languages,
            language=language,
            task=options.task,
        )

    def hear(self, mel: Samples, options: TranscriptionOptions) -> Heard:
        """Encode a normalized window of (3000, mels)."""
        array = mx.array(mel).astype(self._dtype)
        features = encode(self.model, array, options.audio_ctx, options.faithful)
        mx.async_eval(features)
        return Heard(features)

    def language(self, heard: Heard) -> str:
        """The likeliest language of a window, as a code; `en` for a model that knows no other."""
        if not self.model.is_multilingual:
            return "en"
        tokenizer = get_tokenizer(True, num_languages=self.model.num_languages)
        tokens, codes = tokenizer.all_language_tokens, tokenizer.all_language_codes
        scores, _ = FastGraph(self.model, heard.features).begin([tokenizer.sot], 0)
        best: Any = mx.argmax(scores[0, mx.array(tokens)]).item()
        return codes[best]

    def decode(
        self, heard: Heard, prompt: Sequence[int], tokenizer: Any, options: TranscriptionOptions, seed: int, go_on: GoOn
    ) -> Decoded:
        """The text of a window, at the first temperature whose text is good enough, else at the last one.

        Args:
            heard: the window.
            prompt: tokens of what was said before; the last `budget` count.
            tokenizer: for the language and the task.
            options: how to decode.
            seed: names the window; what is drawn for it depends on nothing else.
            go_on: asked between two tokens.
        """
        plain = options.without_timestamps
        start: list[int] = list(tokenizer.sot_sequence_including_notimestamps if plain else tokenizer.sot_sequence)
        tokens = [tokenizer.sot_prev, *prompt[-self.budget :], *start] if prompt else start
        decoded = None
        for temperature in options.temperatures:
            decoded = self._try(heard, tokens, tokenizer, options, temperature, seed, go_on)
            if not _poor(decoded, options) or not go_on():
                break
        assert decoded is not None, "there is no temperature"
        return decoded

    def _try(
        self,
        heard: Heard,
        tokens: list[int],
        tokenizer: Any,
        options: TranscriptionOptions,
        temperature: float,
        seed: int,
        go_on: GoOn,
    ) -> Decoded:
        make = FaithfulGraph if options.faithful else FastGraph
        graph: Graph = make(self.model, heard.features)
        scores, at_start = graph.begin(tokens, tokens.index(tokenizer.sot))
        silence: Any = mx.softmax(at_start, axis=-1)[0, tokenizer.no_speech]
        rules = self._rules_of(tokenizer, options)
        limit = self.model.dims.n_text_ctx // 2
        if options.beam_size is not None and temperature == 0:
            found = search(graph, scores, rules, limit, options.beam_size, go_on)
        else:
            key = mx.random.key(seed + round(temperature * 1000))
            found = follow(graph, scores, rules, limit, temperature, key, go_on)
        return _decoded(found, tokenizer, temperature, float(silence.item()))

    def _rules_of(self, tokenizer: Any, options: TranscriptionOptions) -> TokenRules:
        stamps, ordered = not options.without_timestamps, not options.faithful
        name = (tokenizer.language, tokenizer.task, stamps, ordered)
        if name not in self._rules:
            dims = self.model.dims
            self._rules[name] = TokenRules(tokenizer, dims.n_vocab, dims.n_audio_ctx, stamps, ordered)
        return self._rules[name]


def _decoded(found: Found, tokenizer: Any, temperature: float, silence: float) -> Decoded:
    text = tokenizer.decode(found.tokens).strip()
    data = text.encode()
    return Decoded(
        tokens=found.tokens,
        text=text,
        temperature=temperature,
        avg_logprob=found.score / (len(found.tokens) + 1),
        compression_ratio=len(data) / len(zlib.compress(data)),
        no_speech_prob=silence,
    )


def _poor(decoded: Decoded, options: TranscriptionOptions) -> bool:
    """Whether another temperature should be tried: not for silence, whatever its text."""
    silent, repeats, likely = (
        options.no_speech_threshold,
        options.compression_ratio_threshold,
        options.logprob_threshold,
    )
    if silent is not None and decoded.no_speech_prob > silent:
        return False
    return (repeats is not None and decoded.compression_ratio > repeats) or (
        likely is not None and decoded.avg_logprob < likely
    )
