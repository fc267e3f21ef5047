from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.transcription.options import TranscriptionOptions
from actors.transcription.take import Decoded, Segment, Take, Window, Word

END, STAMP = 1000, 2000


def text_of(tokens: Sequence[int]) -> str:
    return "".join(f" {token}" for token in tokens if token < END)


def new_take(options: TranscriptionOptions | None = None, opening: Sequence[int] = ()) -> Take:
    return Take(options or TranscriptionOptions(), STAMP, END, text_of, opening)


def decoded(*tokens: int, **others: float) -> Decoded:
    values = {"temperature": 0.0, "avg_logprob": -0.2, "compression_ratio": 1.0, "no_speech_prob": 0.0} | others
    return Decoded(list(tokens), text_of(tokens), **values)


def at(seconds: float) -> int:
    return STAMP + round(seconds / 0.02)


def take_window(take: Take, result: Decoded, content: int = 6000) -> list[Segment]:
    window = take.next(content, content, True)
    assert window is not None
    return take.commit(window, result, take.cut(window, result))


def test_pairs_of_timestamps_divide_segments() -> None:
    take = new_take()
    segments = take_window(take, decoded(at(0), 1, 2, at(2), at(3), 4, at(5), at(5)))
    assert [(s.id, s.start, s.end, s.text) for s in segments] == [(0, 0.0, 2.0, " 1 2"), (1, 3.0, 5.0, " 4")]
    assert take.seek == 500


def test_a_single_timestamp_at_the_end_takes_the_whole_window() -> None:
    take = new_take()
    segments = take_window(take, decoded(at(0), 1, at(2), at(2), 4, at(4)))
    assert [(s.start, s.end) for s in segments] == [(0.0, 2.0), (2.0, 4.0)]
    assert take.seek == 3000


def test_text_without_a_pair_is_one_segment_up_to_its_last_timestamp() -> None:
    take = new_take()
    assert [(s.start, s.end) for s in take_window(take, decoded(at(0), 1, 2, at(7)))] == [(0.0, 7.0)]
    assert take.seek == 3000


def test_text_without_timestamps_lasts_as_long_as_its_window() -> None:
    take = new_take()
    assert [s.end for s in take_window(take, decoded(1, 2), content=700)] == [7.0]


def test_silence_is_passed_over() -> None:
    take = new_take()
    assert take_window(take, decoded(1, no_speech_prob=0.9, avg_logprob=-2.0)) == []
    assert (take.seek, take.text) == (3000, "")


def test_likely_text_is_no_silence() -> None:
    assert len(take_window(new_take(), decoded(1, no_speech_prob=0.9, avg_logprob=-0.5))) == 1


def test_the_next_window_sees_the_text_before_it() -> None:
    take = new_take(opening=[7])
    take_window(take, decoded(at(0), 1, at(2)))
    assert take.prompt == [7, at(0), 1, at(2)]
    assert take.text == " 1"


@pytest.mark.parametrize("options", [TranscriptionOptions(condition_on_previous_text=False), TranscriptionOptions()])
def test_doubtful_or_unwanted_text_is_no_prompt(options: TranscriptionOptions) -> None:
    take = new_take(options)
    temperature = 0.6 if options.condition_on_previous_text else 0.0
    take_window(take, decoded(at(0), 1, at(2), temperature=temperature))
    assert take.prompt == []


def test_a_segment_without_text_stays_empty() -> None:
    (segment,) = take_window(new_take(), decoded(at(0), at(0)))[:1]
    assert (segment.text, segment.tokens) == ("", [])


def test_words_say_where_the_next_window_begins() -> None:
    take = new_take(TranscriptionOptions(word_timestamps=True))
    window = take.next(6000, 6000, True)
    assert window is not None
    assert window == Window(0, 3000)
    result = decoded(at(0), 1, at(2), at(2))
    segments = take.cut(window, result)
    segments[0].words = [Word(" 1", 0.5, 1.75, 0.9)]
    take.commit(window, result, segments)
    assert (take.seek, take.last_speech_s) == (175, 1.75)


def test_a_window_that_leads_nowhere_is_left() -> None:
    take = new_take()
    take_window(take, decoded(at(0), 1, at(0), at(0)))
    assert take.seek == 3000


def test_a_growing_clip_is_taken_when_a_window_is_full() -> None:
    take = new_take()
    assert take.next(2999, 2999, False) is None
    assert take.next(2999, 2999, True) == Window(0, 2999)
    assert take.next(3000, 3001, False) == Window(0, 3000)


@given(st.lists(st.lists(st.integers(0, 1500).map(lambda v: STAMP + v) | st.integers(0, 9), max_size=12), max_size=30))
def test_a_clip_always_comes_to_its_end(results: list[list[int]]) -> None:
    take, content = new_take(), 7000
    script = iter(results)
    while (window := take.next(content, content, True)) is not None:
        before = take.seek
        result = decoded(*next(script, []))
        take.commit(window, result, take.cut(window, result))
        assert take.seek > before
