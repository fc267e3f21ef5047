from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Conflict, Expired, InvalidRequest
from actors.transcription.listening import Voice
from actors.transcription.messages import VoiceGate
from actors.transcription.session import Session
from actors.transcription.speech_spans import FRAME, RATE, SpeechSpans
from actors.transcription.wav import Samples

WINDOW = 30 * RATE


class Recorder:
    """A clip that keeps what it is fed, and says that a window waits while there are 30 s of it."""

    def __init__(self) -> None:
        self.pieces: list[Samples] = []
        self.finished = False
        self.taken = 0

    @property
    def samples(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    @property
    def waiting(self) -> bool:
        left = self.samples - self.taken
        return left > 0 if self.finished else left >= WINDOW

    @property
    def content(self) -> Samples:
        return np.concatenate(self.pieces) if self.pieces else np.zeros(0, dtype=np.float32)

    def feed(self, samples: Samples) -> None:
        assert not self.finished
        self.pieces.append(samples)

    def finish(self) -> None:
        self.finished = True


class Talk:
    """Audio whose samples are their own numbers, and how likely each frame of it is speech."""

    def __init__(self, probabilities: Sequence[float], rest: int) -> None:
        self.samples = np.arange(len(probabilities) * FRAME + rest, dtype=np.float32)
        self.probabilities = [*probabilities, *([0.0] if rest else [])]

    def say(self, session: Session, cuts: Sequence[int]) -> None:
        """All of it, in chunks that end at `cuts`."""
        at = 0
        for cut in [*sorted(cut for cut in cuts if cut < len(self.samples)), len(self.samples)]:
            heard = self.probabilities[at // FRAME : cut // FRAME]
            session.hear(self.samples[at:cut], heard, now=0.0)
            at = cut
        session.finish(self.probabilities[at // FRAME :], now=0.0)

    def voice(self, gate: VoiceGate) -> Voice:
        """What is found in it as a whole."""
        spans = SpeechSpans(gate.threshold, gate.min_speech_ms)
        for probability in self.probabilities:
            spans.feed(probability)
        return Voice(tuple(spans.spans(len(self.samples))), len(self.samples))


def new_session(clip: Recorder, gate: VoiceGate | None = None, most_s: float = 3600.0, idle_s: float = 10.0) -> Session:
    return Session(clip, gate, most_s, idle_s, now=0.0)


# Runs of speech and silence, 32 ms a frame.
talks = st.builds(
    lambda runs, rest: Talk([chance for chance, length in runs for _ in range(length)], rest),
    st.lists(st.tuples(st.sampled_from([0.0, 0.4, 0.45, 0.9]), st.integers(1, 40)), max_size=12),
    st.integers(0, FRAME - 1),
)
cuttings = st.lists(st.integers(0, 200_000), max_size=12)


@given(talks, cuttings)
def test_without_a_gate_the_clip_is_what_was_sent(talk: Talk, cuts: list[int]) -> None:
    clip = Recorder()
    session = new_session(clip)
    talk.say(session, cuts)
    assert np.array_equal(clip.content, talk.samples)
    assert (clip.finished, session.start, session.speech) == (True, 0, None)


@given(talks, cuttings, st.booleans(), st.sampled_from([0, 100, 250, 700]))
def test_however_audio_is_cut_the_gate_lets_through_what_it_would_of_the_whole(
    talk: Talk, cuts: list[int], trim: bool, least: int
) -> None:
    gate, clip = VoiceGate(min_speech_ms=least, trim=trim), Recorder()
    session = new_session(clip, gate)
    talk.say(session, cuts)
    voice = talk.voice(gate)
    assert session.speech == bool(voice.spans)
    assert tuple(session.spans) == voice.spans
    if not voice.spans:
        assert not session.due
    elif trim:
        wanted = voice.trimmed
        assert np.array_equal(clip.content, talk.samples[wanted.start : wanted.end])
        assert session.start == wanted.start
    else:
        assert np.array_equal(clip.content, talk.samples)


def test_a_window_is_due_when_it_is_complete_and_the_rest_at_the_end() -> None:
    clip = Recorder()
    session = new_session(clip)
    session.hear(np.zeros(WINDOW - 1, dtype=np.float32), [], 0.0)
    assert not session.due
    session.hear(np.zeros(2, dtype=np.float32), [], 0.0)
    assert session.due
    clip.taken = WINDOW
    assert not session.due
    session.finish([], 0.0)
    assert session.due
    clip.taken += 1
    assert not session.due


def test_nothing_is_due_before_there_was_speech() -> None:
    clip = Recorder()
    session = new_session(clip, VoiceGate())
    silence = np.zeros(FRAME * 1000, dtype=np.float32)
    session.hear(silence, [0.0] * 1000, 0.0)
    assert clip.waiting
    assert not session.due
    session.hear(silence[: FRAME * 20], [0.9] * 20, 0.0)
    assert session.due


def test_silence_that_will_be_trimmed_is_not_kept() -> None:
    clip = Recorder()
    session = new_session(clip, VoiceGate(trim=True))
    for minute in range(10):
        session.hear(np.zeros(FRAME * 1875, dtype=np.float32), [0.1] * 1875, minute)
        assert session.nbytes < RATE * 4
    session.hear(np.zeros(FRAME * 20, dtype=np.float32), [0.9] * 20, 11.0)
    assert session.start == FRAME * 18750 - RATE * 30 // 1000 - RATE // 2


def test_speech_that_goes_on_is_let_through_while_it_is_trimmed() -> None:
    clip = Recorder()
    session = new_session(clip, VoiceGate(trim=True))
    session.hear(np.zeros(FRAME * 2000, dtype=np.float32), [0.9] * 2000, 0.0)
    assert session.due


def test_a_session_takes_so_much_audio_and_no_more() -> None:
    session = new_session(Recorder(), most_s=1.0)
    session.check(RATE)
    with pytest.raises(InvalidRequest, match="longer than the 1 s"):
        session.check(RATE + 1)


def test_a_finished_session_takes_nothing() -> None:
    session = new_session(Recorder())
    session.finish([], 0.0)
    with pytest.raises(Conflict):
        session.check()
    session.finished()
    with pytest.raises(Conflict):
        session.check()


def test_a_session_expires_when_nobody_was_heard_of() -> None:
    session = new_session(Recorder(), idle_s=10.0)
    session.touch(5.0)
    assert not session.expire(15.0)
    assert session.expire(15.1)
    with pytest.raises(Expired, match="idle for more than 10 s"):
        session.check()


def test_a_session_that_is_finishing_does_not_expire() -> None:
    session = new_session(Recorder(), idle_s=10.0)
    session.finish([], 0.0)
    assert not session.expire(100.0)
