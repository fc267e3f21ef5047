"""Several choices of one request."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from actors.errors import EngineUnavailable, GenerationFailed
from actors.generation.messages import Submit, choice_id
from tests.routes.harness import House, build, byte_tokenizer, events
from tests.routes.reading import TEXT, Answer, both, hermes, post, streamed, tool, whole
from tests.routes.scripted_generation import Step
from tests.routes.templates import TOOLS


@pytest.mark.parametrize("count", range(1, 9))
async def test_each_choice_has_its_index_and_usage_counts_all(count: int) -> None:
    server = build()
    words = [str(index) * (index + 1) for index in range(count)]
    server.says_each(*words)
    answer = (await post(server, n=count)).json()
    assert [choice["index"] for choice in answer["choices"]] == list(range(count))
    assert [choice["message"]["content"] for choice in answer["choices"]] == words
    assert server.row.choices == count
    tokens = sum(map(len, words)) + count
    assert answer["usage"]["completion_tokens"] == tokens
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + tokens
    assert server.generation.cancelled == server.generation.ended == []


async def test_streamed_choices_take_turns_and_only_the_last_chunk_has_usage() -> None:
    server = build()
    server.says_each(["a", "b"], ["x"], ["1", "2", "3"])
    chunks = events((await post(server, n=3, stream=True)).text)
    told = [(chunk["choices"][0]["index"], chunk["choices"][0]["delta"].get("content")) for chunk in chunks]
    assert told[:3] == [(0, ""), (1, ""), (2, "")]
    assert told[3:] == [
        (0, "a"),
        (1, "x"),
        (2, "1"),
        (0, "b"),
        (1, None),
        (2, "2"),
        (0, None),
        (2, "3"),
        (2, None),
    ]
    finishes = [(chunk["choices"][0]["index"], chunk["choices"][0]["finish_reason"]) for chunk in chunks]
    assert [finish for finish in finishes if finish[1]] == [(1, "stop"), (0, "stop"), (2, "stop")]
    assert [index for index, chunk in enumerate(chunks) if "usage" in chunk] == [len(chunks) - 1]
    assert chunks[-1]["usage"]["completion_tokens"] == 9
    assert {chunk["id"] for chunk in chunks} == {server.row.request_id}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_string_ends_its_own_choice_and_the_others_go_on(stream: bool) -> None:
    server = build()
    server.says_each(["a", "STOP", "never", "never"], ["one", " two", " three"], ["x", "y"])
    read = streamed if stream else whole
    assert await read(server, n=3, stop="STOP") == [
        Answer("a", "", [], "stop"),
        Answer("one two three", "", [], "stop"),
        Answer("xy", "", [], "stop"),
    ]
    assert server.generation.ended == [server.row.request_id]
    assert server.generation.cancelled == []


async def test_a_choice_that_ended_by_itself_is_not_ended_again() -> None:
    server = build()
    server.says_each(["a"], ["STOP"], ["b", "c", "d"])
    assert [answer.content for answer in await both(server, n=3, stop="STOP")] == ["a", "", "bcd"]
    assert server.generation.ended == [choice_id(row.request_id, 1) for row in server.generation.submitted]


async def test_the_last_choice_to_be_stopped_is_cancelled_with_the_request() -> None:
    server = build()
    server.says_each(["aSTOP", "more"], ["b", "STOP", "more", "more"])
    assert [answer.content for answer in await whole(server, n=2, stop="STOP")] == ["a", "b"]
    assert server.generation.ended == [server.row.request_id]


async def test_each_choice_ends_after_its_own_only_call() -> None:
    server = build(tokenizer=byte_tokenizer(TOOLS))
    call = hermes("clock")
    server.says_each([f"A {call}", call], ["no call", " at all"], [call, "more"])
    answers = await both(server, n=3, tools=[tool("clock")], parallel_tool_calls=False)
    noon = ("clock", "{}")
    assert answers == [
        Answer("A", "", [noon], "tool_calls"),
        Answer("no call at all", "", [], "stop"),
        Answer(None, "", [noon], "tool_calls"),
    ]
    first, second = (row.request_id for row in server.generation.submitted)
    assert server.generation.ended == [first, choice_id(first, 2), second, choice_id(second, 2)]


async def test_each_choice_numbers_its_calls_from_zero() -> None:
    server = build(tokenizer=byte_tokenizer(TOOLS))
    server.says_each([hermes("clock")], [hermes("clock"), hermes("clock")])
    noon = ("clock", "{}")
    assert await both(server, n=2, tools=[tool("clock")]) == [
        Answer(None, "", [noon], "tool_calls"),
        Answer(None, "", [noon, noon], "tool_calls"),
    ]


async def test_choices_may_differ_in_their_finish() -> None:
    server = build()
    server.says_each(["ab"], ["STOP"], finish="length")
    assert [answer.finish for answer in await both(server, n=2, stop="STOP")] == ["length", "stop"]


async def test_the_seed_of_a_request_is_its_first_choices() -> None:
    server = build()
    server.says("x")
    await post(server, n=4, seed=7)
    assert (server.row.sampling.seed, server.row.choices) == (7, 4)


async def test_a_raw_continuation_has_choices_too() -> None:
    server = build()
    server.says_each(["a"], ["b", "c"])
    answer = (await post(server, TEXT, n=2)).json()
    assert answer["choices"] == [
        {"index": 0, "text": "a", "finish_reason": "stop"},
        {"index": 1, "text": "bc", "finish_reason": "stop"},
    ]
    chunks = events((await post(server, TEXT, n=2, stream=True)).text)
    assert [(chunk["choices"][0]["index"], chunk["choices"][0]["text"]) for chunk in chunks] == [
        (0, "a"),
        (1, "b"),
        (0, ""),
        (1, "c"),
        (1, ""),
    ]
    assert ["usage" in chunk for chunk in chunks] == [False] * 4 + [True]


def failing(server: House, error: Exception) -> None:
    def script(submit: Submit) -> Iterable[Step]:
        letter = server.context.tokenizer.encode("a")
        yield server.delta(submit.request_id, letter)
        yield server.delta(submit.request_id, (), finish="length")
        yield server.delta(choice_id(submit.request_id, 1), letter)
        yield error

    server.generation.script = script


@pytest.mark.parametrize(
    ("error", "status"), [(GenerationFailed("row 1 failed"), 500), (EngineUnavailable("it died"), 502)]
)
async def test_a_choice_that_fails_fails_the_whole_answer(error: Exception, status: int) -> None:
    server = build()
    failing(server, error)
    response = await post(server, n=2)
    assert (response.status_code, response.json()["error"]["message"]) == (status, str(error))


async def test_a_choice_that_fails_in_a_stream_is_its_last_event() -> None:
    server = build()
    failing(server, GenerationFailed("row 1 failed"))
    frames = (await post(server, n=2, stream=True)).text.split("\n\n")
    assert frames[-2:] == ['data: {"error":{"message":"row 1 failed"}}', ""]
    assert len(frames) == 2 + 1 + 1 + 1 + 2


async def test_an_answer_of_which_one_choice_never_ends_is_an_error() -> None:
    server = build()
    server.generation.script = lambda submit: [server.delta(submit.request_id, (), finish="length")]
    response = await post(server, n=2)
    assert (response.status_code, response.json()["error"]["message"]) == (500, "the answer ended without a finish")
