"""A client that leaves, in every phase of its request."""

import asyncio
import json
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from actors.generation.messages import Delta, Submit, choice_id
from routes.preparation import Preparation
from tests.routes.call import Call, turns
from tests.routes.harness import House, build, chat
from tests.routes.scripted_generation import Step

PATH = "/v1/chat/completions"


def call(house: House, **fields: Any) -> Call:
    return Call(house.app, PATH, json.dumps(chat(**fields)).encode())


def parked(house: House, *before: bytes) -> None:
    """Rows give these bytes as tokens, then never anything again."""

    def script(submit: Submit) -> Iterable[Step]:
        for piece in before:
            yield Delta(submit.request_id, tuple(house.context.tokenizer.encode(piece.decode())))
        yield asyncio.Event()

    house.generation.script = script


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_while_the_row_waits_cancels_it(stream: bool) -> None:
    house = build()
    parked(house)
    request = call(house, stream=stream)
    await house.generation.entered.wait()
    request.leave()
    await request.task
    assert house.generation.cancelled == [house.row.request_id]
    assert request.status == (200 if stream else None)
    figures = house.context.gate.statistics()
    assert (figures.open_requests, figures.streams, figures.gone) == (0, 0, 1)


async def test_leaving_in_the_middle_of_a_stream_cancels_the_row() -> None:
    house = build()
    parked(house, b"one", b"two")
    request = call(house, stream=True)
    while b"two" not in request.body:
        request.streamed.clear()
        await request.streamed.wait()
    assert house.context.gate.statistics().streams == 1
    request.leave()
    await request.task
    assert house.generation.cancelled == [house.row.request_id]
    assert b"[DONE]" not in request.body
    assert b"error" not in request.body


async def test_leaving_in_the_middle_of_a_whole_answer_cancels_the_row() -> None:
    house = build()
    parked(house, b"one")
    request = call(house)
    await house.generation.entered.wait()
    await turns()
    request.leave()
    await request.task
    assert house.generation.cancelled == [house.row.request_id]
    assert request.sent == []


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_while_one_of_several_choices_runs_cancels_the_request(stream: bool) -> None:
    house = build()

    def script(submit: Submit) -> Iterable[Step]:
        yield house.delta(submit.request_id, (), finish="length")
        yield house.delta(choice_id(submit.request_id, 1), house.context.tokenizer.encode("two"))
        yield asyncio.Event()

    house.generation.script = script
    request = call(house, n=2, stream=stream)
    await house.generation.entered.wait()
    await turns()
    request.leave()
    await request.task
    assert house.generation.cancelled == [house.row.request_id]
    assert (b"two" in request.body, b"[DONE]" in request.body) == (stream, False)


async def test_leaving_the_line_of_preparation_submits_nothing_and_frees_the_place() -> None:
    preparation, busy = Preparation(1, 1), threading.Event()
    house = build(preparation=preparation)
    house.says("served")
    running = asyncio.ensure_future(preparation.run(busy.wait))
    await turns()
    leaving = call(house)
    while preparation.statistics().waiting == 0:
        await turns(1)
    refused = call(house)
    await refused.task
    assert refused.status == 429
    leaving.leave()
    await leaving.task
    assert (leaving.sent, preparation.statistics().waiting) == ([], 0)
    successor = call(house)
    while preparation.statistics().waiting == 0:
        await turns(1)
    busy.set()
    await running
    await successor.task
    assert successor.status == 200
    assert len(house.generation.submitted) == 1


async def test_cancelling_the_handler_itself_cancels_the_row() -> None:
    house = build()
    parked(house, b"one")
    request = call(house, stream=True)
    await house.generation.entered.wait()
    request.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request.task
    assert house.generation.cancelled == [house.row.request_id]
    assert house.context.gate.statistics().open_requests == 0


async def test_a_client_that_stays_is_not_taken_for_gone() -> None:
    house = build()
    house.says("all of it")
    request = call(house)
    await request.task
    assert request.status == 200
    assert house.context.gate.statistics().gone == 0
    request.leave()
    await turns()
    assert house.generation.cancelled == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "error", [RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed"), BrokenPipeError()]
)
async def test_a_write_to_a_connection_that_is_no_more_is_a_client_that_left(
    stream: bool, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    house = build()
    house.says("hi")

    async def send(message: Any) -> None:
        raise error

    request = call(house, stream=stream)
    request.sending = send
    await request.task
    figures = house.context.gate.statistics()
    assert (figures.open_requests, figures.gone) == (0, 1)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
