from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from routes.roles import attempts, folded, merged
from routes.schema.messages import Message


def says(role: str, content: str, **more: object) -> Message:
    return {"role": role, "content": content, **more}


def call(name: str) -> dict[str, object]:
    return {"id": name, "type": "function", "function": {"name": name, "arguments": {}}}


roles = st.sampled_from(["system", "user", "assistant", "tool"])
conversations = st.lists(st.builds(says, roles, st.sampled_from(["", "a", "b"])), max_size=8)


def test_late_system_messages_join_the_first_one_in_front() -> None:
    before = [says("user", "one"), says("system", "A"), says("user", "two"), says("system", "B")]
    assert merged(before) == [says("system", "A\n\nB"), says("user", "one\n\ntwo")]


def test_neighbours_of_one_role_become_one_message() -> None:
    before = [says("user", "a"), says("user", ""), says("user", "b"), says("assistant", "c"), says("assistant", "d")]
    assert merged(before) == [says("user", "a\n\nb"), says("assistant", "c\n\nd")]


def test_the_calls_of_two_assistant_messages_are_put_in_a_row() -> None:
    before = [
        says("assistant", "", tool_calls=[call("f")], reasoning_content="why"),
        says("assistant", "so", tool_calls=[call("g")], reasoning_content="how"),
    ]
    (after,) = merged(before)
    assert after == says("assistant", "so", tool_calls=[call("f"), call("g")], reasoning_content="why\n\nhow")


def test_results_of_tools_stay_single_and_behind_their_call() -> None:
    before = [
        says("assistant", "", tool_calls=[call("f"), call("g")]),
        says("system", "A"),
        says("tool", "1", tool_call_id="f"),
        says("tool", "2", tool_call_id="g"),
    ]
    assert merged(before) == [before[1], before[0], before[2], before[3]]


def test_the_system_message_goes_into_the_first_user_message() -> None:
    before = [says("system", "A"), says("user", "hi", name="me"), says("assistant", "yes")]
    assert folded(before) == [says("user", "A\n\nhi", name="me"), says("assistant", "yes")]


def test_a_conversation_that_begins_with_the_assistant_gets_the_system_message_as_a_user() -> None:
    before = [says("system", "A"), says("assistant", "hello"), says("user", "hi")]
    assert folded(before) == [says("user", "A"), says("assistant", "hello"), says("user", "hi")]


def test_a_conversation_in_order_is_tried_once() -> None:
    messages = [says("user", "a"), says("assistant", "b"), says("user", "c")]
    assert list(attempts(messages)) == [messages]


def test_attempts_go_from_what_was_sent_to_the_last_resort() -> None:
    messages = [says("user", "a"), says("system", "A")]
    assert list(attempts(messages)) == [messages, [says("system", "A"), says("user", "a")], [says("user", "A\n\na")]]


@given(conversations)
def test_strict_templates_get_the_order_they_want(messages: list[Message]) -> None:
    before = [dict(message) for message in messages]
    for after in (merged(messages), folded(messages)):
        order = [str(message["role"]) for message in after]
        assert "system" not in order[1:]
        assert all(one != next_one or one == "tool" for one, next_one in pairwise(order))
        tools = [message for message in messages if message["role"] == "tool"]
        assert [message for message in after if message["role"] == "tool"] == tools
        letters = sorted("".join(str(message["content"]) for message in messages))
        assert sorted("".join(str(message["content"]) for message in after).replace("\n", "")) == letters
    assert not any(message["role"] == "system" for message in folded(messages))
    assert messages == before
