"""Rules, beams, searches and words, on a model of random numbers and beside mlx-whisper."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_whisper.audio import log_mel_spectrogram
from mlx_whisper.decoding import DecodingOptions
from mlx_whisper.tokenizer import get_tokenizer

from actors.transcription.beams import Beams
from actors.transcription.clip import Clip
from actors.transcription.decoder import WhisperDecoder
from actors.transcription.loading import load
from actors.transcription.mel import LogMel
from actors.transcription.options import TranscriptionOptions
from actors.transcription.rules import StampRules
from actors.transcription.vocabulary import opening
from actors.transcription.words import cheapest_path
from tests.support.sound import clips, needs_speech, tone
from tests.support.whisper import plain, real_whisper, tiny_whisper

GREEDY = TranscriptionOptions(temperatures=(0.0,))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> WhisperDecoder:
    return WhisperDecoder(load(tiny_whisper(tmp_path_factory.mktemp("whisper")), "float32"))


@pytest.fixture(scope="module")
def mel() -> Any:
    found = LogMel(80)
    found.feed(tone(2.0))
    found.finish()
    return found.window(0, 200)


def decode(decoder: WhisperDecoder, mel: Any, options: TranscriptionOptions, prompt: list[int] | None = None) -> Any:
    tokenizer = decoder.tokenizer(options, "en")
    return decoder.decode(decoder.hear(mel, options), prompt or [], tokenizer, options, 0, lambda: True)


@pytest.mark.parametrize("prompt", [[], [50, 60, 70]])
def test_the_faithful_graph_chooses_mlx_whispers_tokens(tiny: WhisperDecoder, mel: Any, prompt: list[int]) -> None:
    theirs: Any = importlib.import_module("mlx_whisper.decoding").decode(
        tiny.model, mx.array(mel), DecodingOptions(language="en", fp16=False, prompt=prompt or None)
    )
    ours = decode(tiny, mel, TranscriptionOptions(temperatures=(0.0,), faithful=True), prompt)
    assert ours.tokens == theirs.tokens
    assert ours.avg_logprob == pytest.approx(theirs.avg_logprob, abs=1e-4)
    assert ours.no_speech_prob == pytest.approx(theirs.no_speech_prob, abs=1e-5)


def test_the_fast_graph_scores_as_the_faithful_one(tiny: WhisperDecoder, mel: Any) -> None:
    options = TranscriptionOptions(temperatures=(0.0,), without_timestamps=True)
    faithful = TranscriptionOptions(temperatures=(0.0,), without_timestamps=True, faithful=True)
    ours, theirs = decode(tiny, mel, options, [50, 60]), decode(tiny, mel, faithful, [50, 60])
    assert ours.tokens == theirs.tokens
    assert ours.avg_logprob == pytest.approx(theirs.avg_logprob, abs=1e-4)


@pytest.mark.parametrize("faithful", [False, True])
def test_one_beam_is_greedy(tiny: WhisperDecoder, mel: Any, faithful: bool) -> None:
    greedy = TranscriptionOptions(temperatures=(0.0,), faithful=faithful)
    beam = TranscriptionOptions(temperatures=(0.0,), faithful=faithful, beam_size=1)
    assert decode(tiny, mel, beam).tokens == decode(tiny, mel, greedy).tokens


def test_both_graphs_find_the_same_beams(tiny: WhisperDecoder, mel: Any) -> None:
    found = [
        decode(tiny, mel, TranscriptionOptions(temperatures=(0.0,), faithful=faithful, beam_size=3))
        for faithful in (False, True)
    ]
    assert found[0].tokens == found[1].tokens


def test_drawn_tokens_repeat_themselves(tiny: WhisperDecoder, mel: Any) -> None:
    warm = TranscriptionOptions(temperatures=(1.0,))
    assert decode(tiny, mel, warm).tokens == decode(tiny, mel, warm).tokens
    assert decode(tiny, mel, warm).tokens != decode(tiny, mel, GREEDY).tokens


def test_poor_text_is_tried_at_the_next_temperature(tiny: WhisperDecoder, mel: Any) -> None:
    strict = TranscriptionOptions(temperatures=(0.0, 0.4), logprob_threshold=0.0, no_speech_threshold=None)
    assert decode(tiny, mel, strict).temperature == 0.4
    mild = TranscriptionOptions(temperatures=(0.0, 0.4), logprob_threshold=None, compression_ratio_threshold=None)
    assert decode(tiny, mel, mild).temperature == 0.0


def test_a_search_that_is_given_up_ends_at_once(tiny: WhisperDecoder, mel: Any) -> None:
    tokenizer = tiny.tokenizer(GREEDY, "en")
    heard = tiny.hear(mel, GREEDY)
    assert len(tiny.decode(heard, [], tokenizer, GREEDY, 0, lambda: False).tokens) <= 1


def test_a_part_of_the_encoder_can_be_left_out(tiny: WhisperDecoder, mel: Any) -> None:
    heard = tiny.hear(mel, TranscriptionOptions(audio_ctx=256))
    assert heard.features.shape == (1, 256, 16)


def test_a_language_is_found(tmp_path: Path, mel: Any) -> None:
    decoder = WhisperDecoder(load(tiny_whisper(tmp_path, 51865), "float32"))
    heard = decoder.hear(mel, GREEDY)
    theirs = importlib.import_module("mlx_whisper.decoding").detect_language(decoder.model, mx.array(mel))
    assert decoder.language(heard) == max(theirs[1], key=theirs[1].get)


@given(st.lists(st.integers(0, 30) | st.integers(50, 80), max_size=12))
def test_something_may_always_follow(said: list[int]) -> None:
    bounds = StampRules(end=40, first_stamp=50, vocabulary=100, positions=1500, ordered=True).bounds(said)
    barred = [token < bounds.low or token >= bounds.high or 50 <= token < bounds.stamp_low for token in range(100)]
    assert not all(barred)


def test_timestamps_come_in_pairs_and_never_fall() -> None:
    rules = StampRules(end=40, first_stamp=50, vocabulary=100, positions=1500, ordered=True)
    assert rules.bounds([]).low == 50
    assert rules.bounds([55]).high == 50
    assert (rules.bounds([55, 3, 60]).low, rules.bounds([55, 3, 60]).stamp_low) == (40, 60)
    assert (rules.bounds([55, 3]).low, rules.bounds([55, 3]).stamp_low) == (0, 56)


def by_the_book(table: Any, end: int, width: int, length: int) -> list[int]:
    """openai-whisper's search over whole sequences, with dictionaries of them."""
    live: dict[tuple[int, ...], float] = {(0,): 0.0}
    done: dict[Any, float] = {}
    for _ in range(length):
        scores: dict[Any, float] = {
            (*line, int(token)): score + table[line[-1]][token]
            for line, score in live.items()
            for token in np.argsort(-table[line[-1]])[: width + 1]
        }
        ended: list[Any] = []
        live = {}
        for line in sorted(scores, key=lambda line: -scores[line]):
            if line[-1] == end:
                ended.append(line)
            else:
                live[line] = scores[line]
            if len(live) == width:
                break
        for line in ended[: width - len(done)]:
            done[line] = scores[line]
        if len(done) == width:
            break
    for line in sorted(live, key=lambda line: -live[line]):
        if len(done) < width:
            done[(*line, end)] = live[line]
    best: Any = max(done, key=lambda line: done[line] / max(1, len(line) - 2))
    return list(best[1:-1])


@given(st.integers(1, 4), st.integers(0, 10_000))
def test_beams_are_those_of_openai_whisper(width: int, seed: int) -> None:
    logits = np.random.default_rng(seed).normal(size=(8, 8)) * 2
    logits[0, 7] = -50.0  # nothing ends before it began
    table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    beams, length = Beams(width, end=7), 6

    def offers(row: Any) -> tuple[list[int], list[float]]:
        order = np.argsort(-row)[: width + 1]
        return order.tolist(), row[order].tolist()

    tokens, scores = offers(table[0])
    step = beams.begin([tokens], [scores])
    for _ in range(1, length):
        if step is None:
            break
        assert [said[-1] for said in beams.said] == step.tokens
        lines = [offers(table[said[-1]]) for said in beams.said]
        step = beams.advance([line[0] for line in lines], [line[1] for line in lines])
    assert beams.best().tokens == by_the_book(table, 7, width, length)


@given(st.integers(1, 7), st.integers(1, 9), st.integers(0, 1000))
def test_the_cheapest_path_is_cheapest(rows: int, columns: int, seed: int) -> None:
    costs = np.random.default_rng(seed).normal(size=(rows, columns))
    places, positions = cheapest_path(costs)
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            total[i, j] = costs[i - 1, j - 1] + min(total[i - 1, j - 1], total[i - 1, j], total[i, j - 1])
    assert costs[places, positions].sum() == pytest.approx(total[rows, columns], abs=1e-4)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 9000), min_size=1, max_size=6), st.integers(0, 100))
def test_the_spectrogram_is_whispers_wherever_the_clip_is_cut(sizes: list[int], seed: int) -> None:
    samples = np.random.default_rng(seed).normal(size=sum(sizes)).astype(np.float32) * 0.1
    mel = LogMel(80)
    for piece in np.split(samples, np.cumsum(sizes)[:-1]):
        mel.feed(piece)
    mel.finish()
    theirs = np.array(log_mel_spectrogram(samples, 80, padding=480_000))
    assert mel.content == len(theirs) - 3000
    np.testing.assert_allclose(mel.window(0, mel.content)[: mel.content], theirs[: mel.content], atol=2e-4)
    np.testing.assert_allclose(mel.opening(), theirs[:3000], atol=2e-4)


def test_terms_are_told_whole_or_not_at_all() -> None:
    tokenizer = get_tokenizer(False)
    tokens, report = opening("Once", ["Sotto", "a " * 300, "Metal"], tokenizer.encode, 20)
    assert report is not None
    assert (report.included, report.omitted) == (("Sotto", "Metal"), ("a " * 300,))
    assert tokenizer.decode(tokens) == " Once Sotto, Metal"
    assert report.token_count == len(tokens) <= report.token_budget


def test_the_end_of_a_long_prompt_counts() -> None:
    tokens, report = opening("word " * 300 + "last", [], get_tokenizer(False).encode, 5)
    assert report is None
    assert get_tokenizer(False).decode(tokens).endswith(" last")
    assert len(tokens) == 5


@needs_speech
def test_people_are_understood_as_mlx_whisper_understands_them(monkeypatch: pytest.MonkeyPatch) -> None:
    transcribe = importlib.import_module("mlx_whisper.transcribe")
    decoder = real_whisper()
    monkeypatch.setattr(transcribe.ModelHolder, "model", decoder.model)
    monkeypatch.setattr(transcribe.ModelHolder, "model_path", "here")
    samples = clips()[1]
    clip = Clip(80, TranscriptionOptions(word_timestamps=True))
    clip.feed(samples)
    clip.finish()
    while clip.waiting:
        clip.advance(decoder, lambda: True)
    theirs: Any = transcribe.transcribe(samples, path_or_hf_repo="here", fp16=False, word_timestamps=True)
    ours = [segment.plain() for segment in clip.segments]
    assert clip.text == theirs["text"]
    assert plain(ours) == plain(theirs["segments"])
    said = [(word["word"], float(word["start"]), float(word["end"])) for word in theirs["segments"][0]["words"]]
    assert [(word["word"], word["start"], word["end"]) for word in ours[0]["words"]] == said
