import pytest

from actors.errors import ShuttingDown
from routes.gate import Gate


def test_requests_are_counted_while_they_are_inside() -> None:
    gate = Gate()
    with gate.pass_through(), gate.pass_through(), gate.streaming():
        figures = gate.statistics()
        assert (figures.open_requests, figures.streams, figures.admitted) == (2, 1, 2)
    assert (gate.statistics().open_requests, gate.statistics().streams) == (0, 0)


def test_a_request_that_fails_is_outside_again() -> None:
    gate = Gate()
    with pytest.raises(KeyError), gate.pass_through(), gate.streaming():
        raise KeyError
    assert (gate.statistics().open_requests, gate.statistics().streams) == (0, 0)


async def test_a_closed_gate_refuses_newcomers_and_keeps_those_inside() -> None:
    gate = Gate()
    with gate.pass_through():
        gate.close()
        with pytest.raises(ShuttingDown), gate.pass_through():
            pass
        assert gate.statistics().open_requests == 1
    assert gate.statistics().open_requests == 0
    assert gate.statistics().draining
