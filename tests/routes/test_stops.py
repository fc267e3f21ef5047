from hypothesis import given
from hypothesis import strategies as st

from routes.stops import StopMatcher

letters = st.text(alphabet="ab", max_size=30)
stop_lists = st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4)


def run(pieces: list[str], stops: list[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(stops)
    shown = "".join([matcher.feed(piece) for piece in pieces])
    if matcher.matched is None:
        shown += matcher.flush()
    return shown, matcher.matched


def naive(text: str, stops: list[str]) -> tuple[str, str | None]:
    """The first stop string to be complete, letter by letter; the longest of several."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            stop = max(ending, key=len)
            return text[: end - len(stop)], stop
    return text, None


@given(letters, stop_lists, st.data())
def test_every_cut_gives_what_the_whole_text_gives(text: str, stops: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert run(pieces, stops) == naive(text, stops)


@given(letters, stop_lists)
def test_text_is_held_exactly_as_long_as_it_could_begin_a_stop_string(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    shown = ""
    for index, letter in enumerate(text, 1):
        shown += matcher.feed(letter)
        if matcher.matched is not None:
            break
        held = text[len(shown) : index]
        beginnings = {stop[:length] for stop in stops for length in range(1, len(stop))}
        assert held == "" or held in beginnings
        assert all(text[start:index] not in beginnings for start in range(len(shown)))


def test_a_held_beginning_is_released_once_it_turns_out_harmless() -> None:
    matcher = StopMatcher(["###"])
    assert matcher.feed("a##") == "a"
    assert matcher.feed("b") == "##b"
    assert matcher.matched is None


def test_nothing_is_shown_after_a_match() -> None:
    matcher = StopMatcher(["\n\n"])
    assert matcher.feed("one\n\ntwo") == "one"
    assert matcher.matched == "\n\n"
    assert matcher.feed("three") == ""


def test_what_is_held_at_the_end_is_shown_by_flush() -> None:
    matcher = StopMatcher(["<end>"])
    assert matcher.feed("say <en") == "say "
    assert matcher.flush() == "<en"
    assert matcher.flush() == ""


def test_without_stop_strings_text_passes_at_once() -> None:
    assert StopMatcher([]).feed("anything") == "anything"
