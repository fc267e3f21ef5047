from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.gpu_lease.ledger import Ledger, size_text
from actors.gpu_lease.messages import Reserve, Unreserve
from actors.gpu_lease.process import Process

GIB = 2**30


def reserve(owner: str, size: int, purpose: str = "weights", pid: int = 1) -> Reserve:
    return Reserve(owner, purpose, size, pid, 5.0)


def test_what_fits_is_booked_and_what_does_not_is_refused_with_the_sizes() -> None:
    ledger = Ledger(10 * GIB)
    assert ledger.book(reserve("generation:a", 8 * GIB)).granted
    refused = ledger.book(reserve("whisper:b", 3 * GIB))
    assert not refused.granted
    assert refused.reason == (
        "weights of whisper:b need 3.0 GiB, but only 2.0 GiB of the memory budget of 10.0 GiB are free "
        "(8.0 GiB for weights of generation:a)"
    )
    assert ledger.reserved == 8 * GIB


def test_a_second_booking_replaces_the_first_and_a_refused_one_leaves_it() -> None:
    ledger = Ledger(10)
    assert ledger.book(reserve("a", 4)).granted
    assert ledger.book(reserve("a", 10)).granted
    assert ledger.reserved == 10
    assert not ledger.book(reserve("a", 11)).granted
    assert ledger.reserved == 10


def test_bookings_end_with_their_process() -> None:
    ledger = Ledger(10, [reserve("a", 4, pid=1), reserve("a", 1, purpose="cache", pid=1), reserve("b", 5, pid=2)])
    assert ledger.processes() == {Process(1, 5.0), Process(2, 5.0)}
    assert ledger.died(Process(1, 5.0))
    assert ledger.reserved == 5
    assert not ledger.died(Process(2, 6.0)), "the same number, another process"


def test_ending_an_unknown_booking_changes_nothing() -> None:
    ledger = Ledger(10, [reserve("a", 4)])
    assert not ledger.end(Unreserve("a", "cache"))
    assert ledger.end(Unreserve("a", "weights"))
    assert ledger.reserved == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12))))
def test_the_budget_is_never_exceeded(requests: list[tuple[str, int]]) -> None:
    ledger = Ledger(10)
    booked: dict[str, int] = {}
    for owner, size in requests:
        if ledger.book(reserve(owner, size)).granted:
            booked[owner] = size
        assert ledger.reserved == sum(booked.values()) <= 10


def test_sizes_are_written_for_people() -> None:
    assert [size_text(size) for size in (0, 1023, 1536, 5 * 2**20, 3 * GIB, 5000 * GIB)] == [
        "0 bytes",
        "1023 bytes",
        "1.5 KiB",
        "5.0 MiB",
        "3.0 GiB",
        "5000.0 GiB",
    ]
