import pytest

from routes.parts import ToolCall
from routes.tools.format import Calls, NotMarkup
from routes.tools.reading import (
    Broken,
    Cut,
    is_beginning,
    pass_closer,
    pass_literal,
    read_envelope,
    read_object,
    read_word,
    skip_space,
    taken_or_plain,
)


def test_whitespace_is_skipped_up_to_the_end_of_the_text() -> None:
    assert skip_space(" \n\ta", 1) == 3
    assert skip_space("a  ", 1) == 3


@pytest.mark.parametrize(("text", "begins"), [("", True), ("</", True), ("</a>", False), ("</b", False)])
def test_a_literal_is_begun_by_what_it_starts_with_and_by_nothing_at_all(text: str, begins: bool) -> None:
    assert is_beginning("x" + text, 1, "</a>") is begins


def test_a_literal_is_passed_is_cut_off_or_is_not_there() -> None:
    assert pass_literal("x  </a>y", 1, "</a>") == 7
    with pytest.raises(Cut):
        pass_literal("x </", 1, "</a>")
    with pytest.raises(Broken):
        pass_literal("x <b>", 1, "</a>")


def test_a_closer_may_be_forgotten_and_at_the_end_of_all_text_be_cut_off() -> None:
    assert pass_closer("x <b>", 1, "</a>", False) == 1
    assert pass_closer("x </", 1, "</a>", True) == 4
    with pytest.raises(Cut):
        pass_closer("x </", 1, "</a>", False)


def test_a_word_ends_where_its_literal_follows() -> None:
    assert read_word(" name <s>{", 0, "<s>") == ("name", 9)
    with pytest.raises(Cut):
        read_word("  ", 0, "<s>")
    with pytest.raises(Broken):
        read_word("<s>", 0, "<s>")
    with pytest.raises(Broken):
        read_word("two words<s>", 0, "<s>")


def test_an_object_is_read_up_to_its_bracket_and_a_broken_one_up_to_a_stop() -> None:
    assert read_object(' {"a": "|"}|', 0, ("|",), False) == ({"a": "|"}, 11)
    assert read_object("{'a': True,}|", 0, ("|",), False) == ({"a": True}, 12)
    assert read_object('{"a": [1', 0, ("|",), True) == ({"a": [1]}, 8)


@pytest.mark.parametrize("text", ["", "{", '{"a": 1', "{'a': True,}"])
def test_an_object_without_its_end_or_its_stop_is_cut_off(text: str) -> None:
    with pytest.raises(Cut):
        read_object(text, 0, ("|",), False)


@pytest.mark.parametrize("text", ["[1]", "{1: 2}", "{", '{"a": "half'])
def test_what_is_no_object_or_nothing_of_one_is_broken(text: str) -> None:
    with pytest.raises(Broken):
        read_object(text, 0, ("|",), True)


def test_an_envelope_gives_its_call_if_its_function_was_offered() -> None:
    text = '{"name": "f", "arguments": {"n": 1}}'
    assert read_envelope(text, 0, {"f": {}}, False) == ((ToolCall("f", '{"n":1}'),), len(text))
    assert read_envelope(text, 0, {"g": {}}, False) == ((), len(text))


def test_an_envelope_that_was_cut_off_before_its_arguments_is_broken() -> None:
    with pytest.raises(Broken):
        read_envelope('{"name": "f"', 0, {"f": {}}, True)


def test_calls_are_taken_and_without_one_the_text_is_plain() -> None:
    call = ToolCall("f", "{}")
    assert taken_or_plain([call], 5, 9) == Calls((call,), 5)
    assert taken_or_plain([], 5, 9) == NotMarkup(9)
