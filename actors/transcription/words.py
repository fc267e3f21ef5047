"""When each word was said: the path of the decoder's attention through the audio. MLX in `align`; the rest is NumPy.

The attention of the heads that follow the audio is a matrix of tokens and positions; the cheapest monotonic path
through it says where each token is heard (dynamic time warping). The rules for what such paths get wrong are those of
openai-whisper.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
from scipy.ndimage import median_filter

from actors.transcription.mel import FRAMES_PER_S
from actors.transcription.take import Segment, Word

_PREPENDED = "\"'“¿([{-"
_APPENDED = "\"'.。,，!！?？:：”)]}、"
_SENTENCE_ENDS = ".。!！?？"
_POSITIONS_PER_S = 50
_SMOOTHED = 7
_LONGEST_MEDIAN_S = 0.7

Matrix = np.ndarray[Any, np.dtype[Any]]


@dataclass(slots=True)
class Timing:
    """A word, in seconds from the start of its window."""

    word: str
    tokens: list[int]
    start: float
    end: float
    probability: float


def add_words(
    model: Any, features: Any, tokenizer: Any, segments: list[Segment], size: int, last_speech_s: float
) -> None:
    """Give the segments of one window their words, and move their edges to them.

    Args:
        model: mlx-whisper's.
        features: the window's, as encoded.
        tokenizer: of the language and the task.
        segments: in order.
        size: frames of the window.
        last_speech_s: when the word before them ended, in seconds from the start of the clip.
    """
    text = [[token for token in segment.tokens if token < tokenizer.eot] for segment in segments]
    timings = align(model, features, tokenizer, [token for tokens in text for token in tokens], size)
    median = _median([timing.end - timing.start for timing in timings])
    _shorten_at_sentence_ends(timings, 2 * median)
    _merge_punctuation(timings)
    offset = segments[0].seek / FRAMES_PER_S if segments else 0.0
    line = iter(timings)
    for segment, tokens in zip(segments, text, strict=True):
        segment.words = _take(line, len(tokens), offset)
        if segment.words:
            _fit(segment, segment.words, median, last_speech_s)
            last_speech_s = segment.end


def align(model: Any, features: Any, tokenizer: Any, tokens: list[int], size: int) -> list[Timing]:
    """The words of text tokens, with times. One pass of the decoder."""
    if not tokens:
        return []
    start = list(tokenizer.sot_sequence)
    line = mx.array([[*start, tokenizer.no_timestamps, *tokens, tokenizer.eot]])
    logits, _, attention = model.decoder(line, features)
    chances = mx.softmax(logits[0, len(start) : -2, : tokenizer.eot].astype(mx.float32), precise=True, axis=-1)
    chosen = np.array(mx.take_along_axis(chances, mx.array(tokens)[:, None], axis=1)[:, 0])
    weights = mx.stack([attention[layer][0, head] for layer, head in model.alignment_heads.tolist()])
    weights = mx.softmax(weights[:, :, : size // 2].astype(mx.float32), axis=-1, precise=True)
    deviation = mx.sqrt(mx.var(weights, axis=-2, keepdims=True))
    weights = (weights - mx.mean(weights, axis=-2, keepdims=True)) / deviation
    smooth = median_filter(np.array(weights), size=(1, 1, _SMOOTHED), mode="mirror")
    places, positions = cheapest_path(-smooth.mean(axis=0)[len(start) : -1])
    return _timings(tokenizer, tokens, chosen, places, positions)


def cheapest_path(costs: Matrix) -> tuple[Matrix, Matrix]:
    """The path from the first corner to the last one that is cheapest in all, by rows and columns.

    Steps go to the next row, the next column or both. Computed diagonal by diagonal, whose cells do not depend on each
    other.
    """
    rows, columns = costs.shape
    total = np.full((rows + 1, columns + 1), np.inf, dtype=np.float32)
    total[0, 0] = 0
    steps = np.zeros((rows + 1, columns + 1), dtype=np.int8)
    for diagonal in range(2, rows + columns + 1):
        i = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        both, down, right = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
        step = np.where((both < down) & (both < right), 0, np.where((down < both) & (down < right), 1, 2))
        steps[i, j] = step
        total[i, j] = costs[i - 1, j - 1] + np.choose(step, (both, down, right))
    return _walked(steps)


def _walked(steps: Matrix) -> tuple[Matrix, Matrix]:
    steps[0, :], steps[:, 0] = 2, 1
    i, j = steps.shape[0] - 1, steps.shape[1] - 1
    path: list[tuple[int, int]] = []
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        step = steps[i, j]
        i -= step != 2
        j -= step != 1
    found = np.array(path[::-1])
    return found[:, 0], found[:, 1]


def _timings(tokenizer: Any, tokens: list[int], chances: Matrix, places: Matrix, positions: Matrix) -> list[Timing]:
    words, pieces = tokenizer.split_to_word_tokens([*tokens, tokenizer.eot])
    if len(pieces) <= 1:
        return []
    edges = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces[:-1]])]).astype(int)
    jumps = np.concatenate([[True], np.diff(places) > 0])
    times = positions[jumps] / _POSITIONS_PER_S
    return [
        Timing(word, piece, float(times[first]), float(times[end]), float(np.mean(chances[first:end])))
        for word, piece, first, end in zip(words, pieces, edges[:-1], edges[1:], strict=False)
    ]


def _median(lengths: list[float]) -> float:
    real = [length for length in lengths if length]
    return min(_LONGEST_MEDIAN_S, float(np.median(real))) if real else 0.0


def _shorten_at_sentence_ends(timings: list[Timing], longest: float) -> None:
    for before, timing in pairwise(timings):
        if timing.end - timing.start > longest:
            if timing.word in _SENTENCE_ENDS:
                timing.end = timing.start + longest
            elif before.word in _SENTENCE_ENDS:
                timing.start = timing.end - longest


def _merge_punctuation(timings: list[Timing]) -> None:
    """Give opening marks to the word behind them, closing ones to the word before. What is given away is left empty."""
    behind = len(timings) - 1
    for place in range(len(timings) - 2, -1, -1):
        mark, word = timings[place], timings[behind]
        if mark.word.startswith(" ") and mark.word.strip() in _PREPENDED:
            word.word, word.tokens = mark.word + word.word, mark.tokens + word.tokens
            mark.word, mark.tokens = "", []
        else:
            behind = place
    before = 0
    for place in range(1, len(timings)):
        word, mark = timings[before], timings[place]
        if not word.word.endswith(" ") and mark.word in _APPENDED:
            word.word, word.tokens = word.word + mark.word, word.tokens + mark.tokens
            mark.word, mark.tokens = "", []
        else:
            before = place


def _take(line: Any, count: int, offset: float) -> list[Word]:
    """The words of the next `count` tokens."""
    words: list[Word] = []
    while count > 0 and (timing := next(line, None)) is not None:
        count -= len(timing.tokens)
        if timing.word:
            start, end = round(offset + timing.start, 2), round(offset + timing.end, 2)
            words.append(Word(timing.word, start, end, timing.probability))
    return words


def _fit(segment: Segment, words: list[Word], median: float, last_speech_s: float) -> None:
    """Shorten what is too long after a pause, then bring the edges of words and segment together."""
    first, longest = words[0], 2 * median
    second = words[1] if len(words) > 1 else None
    after_pause = first.end - last_speech_s > 4 * median
    if after_pause and (
        first.end - first.start > longest or (second is not None and second.end - first.start > 2 * longest)
    ):
        if second is not None and second.end - second.start > longest:
            first.end = second.start = max(second.end / 2, second.end - longest)
        first.start = max(0, first.end - longest)
    if segment.start < first.end and segment.start - 0.5 > first.start:
        first.start = max(0, min(first.end - median, segment.start))
    else:
        segment.start = first.start
    last = words[-1]
    if segment.end > last.start and segment.end + 0.5 < last.end:
        last.end = max(last.start + median, segment.end)
    else:
        segment.end = last.end
