from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.generation.boundaries import APART, MOST, WHOLE, stops, thin


def test_a_short_rest_is_computed_without_a_stop() -> None:
    assert stops(0, WHOLE, (20,), 30, 10) == []
    assert stops(500, 500 + WHOLE, (520,), 0, 0) == []


def test_a_template_s_boundaries_are_stops_wherever_they_lie() -> None:
    assert stops(0, 200, (3, 190, 195), 0, 0) == [3, 190, 195]


def test_what_is_computed_already_and_the_end_itself_are_no_stops() -> None:
    assert stops(100, 200, (50, 100, 150, 200, 300), 100, 0) == [150]


def test_prompts_are_expected_to_part_where_others_did() -> None:
    assert stops(0, 200, (), 90, 0) == [90]
    assert stops(0, 200, (95,), 90, 0) == [95], "the template knows better"


def test_long_prompts_have_regular_stops_that_differing_prompts_share() -> None:
    assert stops(0, 500, (), 0, 100) == [100, 200, 300, 400]
    assert stops(130, 500, (), 0, 100) == [200, 300, 400]
    assert stops(90, 410, (205,), 301, 100) == [205, 301], "100, 200, 300 and 400 are too near to others"


@given(
    st.integers(0, 300),
    st.integers(0, 600),
    st.lists(st.integers(-5, 700), max_size=4).map(tuple),
    st.integers(0, 700),
    st.integers(0, 300),
)
def test_stops_rise_within_the_prompt(start: int, more: int, wanted: tuple[int, ...], branch: int, every: int) -> None:
    end = start + more
    found = stops(start, end, wanted, branch, every)
    assert found == sorted(set(found))
    assert all(start < stop < end for stop in found)
    if more > WHOLE:
        assert set(found) >= {length for length in wanted if start < length < end}
    others = [stop for stop in found if stop not in wanted]
    assert all(abs(stop - other) >= APART for stop in others for other in (start, end, *found) if other != stop)


def test_few_boundaries_all_stay() -> None:
    assert thin([10, 20, 30], 100, 0) == (10, 20, 30)
    assert thin([], 100, 0) == ()


def test_boundaries_grow_sparser_towards_the_beginning() -> None:
    assert thin(range(100, 2100, 100), 2100, 0) == (100, 900, 1300, 1500, 1700, 1800, 1900, 2000)


@given(st.lists(st.integers(1, 5000), unique=True, min_size=1, max_size=40).map(sorted), st.data())
def test_the_first_the_last_two_and_the_origin_stay(lengths: list[int], data: st.DataObject) -> None:
    origin = data.draw(st.sampled_from([0, *lengths]))
    kept = thin(lengths, lengths[-1] + 1, origin)
    assert len(kept) == min(len(lengths), MOST)
    assert set(kept) <= set(lengths)
    assert list(kept) == sorted(kept)
    assert {lengths[0], *lengths[-2:]} <= set(kept)
    assert origin in (0, *kept)


def test_a_long_conversation_keeps_where_each_turn_began() -> None:
    kept: tuple[int, ...] = (30,)
    end = 50
    for _ in range(50):
        question, prompt = end + 40, end + 45
        began, end = end, end + 100
        kept = thin([*kept, began, question, prompt], end, began)
        assert {began, question, prompt} <= set(kept)
        assert len(kept) <= MOST
