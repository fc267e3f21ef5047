import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routes.parts import Content, ToolCall
from routes.tools.deepseek import DEEPSEEK
from routes.tools.format import Calls, Incomplete, NotMarkup, Scan, ToolFormat, Tools
from routes.tools.hermes import HERMES
from routes.tools.mistral import MISTRAL
from routes.tools.pythonic import PYTHONIC
from routes.tools.splitter import ToolSplitter
from tests.routes.tools.cutting import cut, split

TOOLS: Tools = {"f": {}, "g": {}}
F = '<tool_call>{"name":"f","arguments":{}}</tool_call>'
G = '<tool_call>{"name":"g","arguments":{}}</tool_call>'
CALL_F = ToolCall("f", "{}")
CALL_G = ToolCall("g", "{}")


@dataclass(frozen=True)
class Brackets:
    """A toy family: `[f]` calls f, and so does `(f)` as the first thing of an answer. `[!]` is plain."""

    seen: list[str]
    name: str = "brackets"
    openers: tuple[str, ...] = ("[", "<<[")
    bare: tuple[str, ...] = ("((",)
    closers: tuple[str, ...] = ("]", "))")
    markers: tuple[str, ...] = ()

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        self.seen.append(text)
        body = text.lstrip("[(<").rstrip("])")
        if text.endswith(("]", "))")) and body in tools:
            return Calls((ToolCall(body, "{}"),), len(text))
        return NotMarkup(1) if final or body == "!" else Incomplete()


def test_text_without_markup_passes_at_once() -> None:
    splitter = ToolSplitter(HERMES, TOOLS)
    assert splitter.feed("Hello there") == [Content("Hello there")]
    assert splitter.feed(" <b>") == [Content(" <b>")]
    assert splitter.flush() == []


def test_only_what_may_begin_an_opener_is_held_back() -> None:
    splitter = ToolSplitter(HERMES, TOOLS)
    assert splitter.feed("a <tool") == [Content("a")]
    assert not splitter.buffering
    assert splitter.feed("box>") == [Content(" <toolbox>")]


def test_a_held_beginning_is_content_at_the_end() -> None:
    splitter = ToolSplitter(HERMES, TOOLS)
    assert splitter.feed("a <tool") == [Content("a")]
    assert splitter.flush() == [Content(" <tool")]
    assert splitter.flush() == []


def test_it_is_buffering_from_the_opener_to_the_closer() -> None:
    splitter = ToolSplitter(HERMES, TOOLS)
    splitter.feed("hi <tool_call>")
    assert splitter.buffering
    assert splitter.feed('{"name":"f","arguments":{}}</tool_') == []
    assert splitter.feed("call>") == [CALL_F]
    assert not splitter.buffering


def test_whitespace_around_calls_is_dropped() -> None:
    assert split([f"Hi\n\n{F}\n{G}\n \n"], HERMES, TOOLS) == [Content("Hi"), CALL_F, CALL_G]


def test_whitespace_after_a_call_and_before_text_is_dropped() -> None:
    assert split([f"{F}\n\nDone.\n"], HERMES, TOOLS) == [CALL_F, Content("Done.\n")]


def test_whitespace_at_the_end_of_plain_text_is_kept() -> None:
    splitter = ToolSplitter(HERMES, TOOLS)
    assert splitter.feed("  a \n") == [Content("  a")]
    assert splitter.flush() == [Content(" \n")]


def test_whitespace_before_markup_that_turns_out_plain_is_kept() -> None:
    text = 'a \n<tool_call>{"name":"nobody","arguments":{}}</tool_call> b'
    assert split([text], HERMES, TOOLS) == [Content(text)]


def test_without_parallel_calls_everything_after_the_first_is_dropped() -> None:
    splitter = ToolSplitter(HERMES, TOOLS, parallel=False)
    assert splitter.feed("a") == [Content("a")]
    assert not splitter.done
    assert splitter.feed(f"{F}{G} more") == [CALL_F]
    assert splitter.done
    assert splitter.feed("even more") == []
    assert splitter.flush() == []


def test_a_bare_opener_counts_as_the_first_thing_only() -> None:
    assert split([" \n((f))"], Brackets([]), TOOLS) == [CALL_F]
    assert split(["a ((f))"], Brackets([]), TOOLS) == [Content("a ((f))")]
    assert split(["[g] ((f))"], Brackets([]), TOOLS) == [CALL_G, Content("((f))")]


def test_half_a_bare_opener_is_held_back_and_is_content_if_nothing_follows() -> None:
    splitter = ToolSplitter(Brackets([]), TOOLS)
    assert splitter.feed(" (") == []
    assert splitter.flush() == [Content(" (")]


def test_a_scan_sees_the_text_up_to_a_closer() -> None:
    format = Brackets([])
    splitter = ToolSplitter(format, TOOLS)
    for piece in ("[", "a", "b)", ")", "] c)", ") tail"):
        splitter.feed(piece)
    assert format.seen == ["[ab))", "[ab))]", "[ab))] c))"]


def test_an_incomplete_answer_at_the_end_is_taken_as_plain() -> None:
    @dataclass(frozen=True)
    class Stubborn(Brackets):
        def scan(self, text: str, tools: Tools, final: bool) -> Scan:
            return Incomplete()

    assert split(["a [b"], Stubborn([]), TOOLS) == [Content("a [b")]


@given(st.lists(st.sampled_from(["[", "]", "(", ")", "<", "f", "g", "!", " ", "\n", "x"]), max_size=25), st.data())
def test_every_cut_of_toy_markup_gives_the_same(letters: list[str], data: st.DataObject) -> None:
    text = "".join(letters)
    parallel = data.draw(st.booleans())
    whole = split([text], Brackets([]), TOOLS, parallel)
    assert split(cut(text, data), Brackets([]), TOOLS, parallel) == whole
    assert split(text, Brackets([]), TOOLS, parallel) == whole


FRAGMENTS = [
    F,
    G,
    "<tool_call>",
    "</tool_call>",
    '{"name":"f",',
    '"arguments":',
    "{",
    "}",
    '"',
    "\\",
    " \n",
    "text",
    "<",
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12), st.data())
def test_every_cut_gives_the_same_and_content_loses_whitespace_only(fragments: list[str], data: st.DataObject) -> None:
    text = "".join(fragments)
    whole = split([text], HERMES, TOOLS)
    assert split(cut(text, data), HERMES, TOOLS) == whole
    assert split(text, HERMES, TOOLS) == whole
    if not any(isinstance(part, ToolCall) for part in whole):
        assert "".join(part.text for part in whole if isinstance(part, Content)) == text


def hermes(value: str) -> str:
    return "<tool_call>" + json.dumps({"name": "f", "arguments": {"s": value}}) + "</tool_call>"


class Counting:
    """A family whose scans are counted."""

    def __init__(self, format: ToolFormat) -> None:
        self.name = format.name
        self.openers = format.openers
        self.bare = format.bare
        self.closers = format.closers
        self.markers = format.markers
        self.scans = 0
        self._look: Callable[[str, Tools, bool], Scan] = format.scan

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        self.scans += 1
        return self._look(text, tools, final)


@pytest.mark.parametrize("value", ['a\\b"{}', "</tool_call>", "é\n"])
def test_large_arguments_are_scanned_a_few_times_only(value: str) -> None:
    large = value * (100_000 // len(value))
    text = hermes(large)
    format = Counting(HERMES)
    parts = split([text[at : at + 4] for at in range(0, len(text), 4)], format, TOOLS)
    assert [json.loads(part.arguments) for part in parts if isinstance(part, ToolCall)] == [{"s": large}]
    assert format.scans < 200


@pytest.mark.parametrize(
    ("format", "piece", "times"),
    [
        (DEEPSEEK, "<｜tool▁calls▁begin｜>", 3000),
        (DEEPSEEK, '<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"', 3000),
        (PYTHONIC, "<|python_start|>[", 1500),
        (MISTRAL, '[TOOL_CALLS]x{"', 1500),
    ],
)
def test_a_model_that_loops_on_an_opener_is_scanned_a_few_times_only(
    format: ToolFormat, piece: str, times: int
) -> None:
    counting = Counting(format)
    assert split([piece] * times, counting, TOOLS) == [Content(piece * times)]
    assert counting.scans == 32


@pytest.mark.parametrize(("mistakes", "calls"), [(31, True), (32, False)])
def test_after_32_places_that_were_no_markup_the_rest_is_content(mistakes: int, calls: bool) -> None:
    plain = "[!] " * mistakes
    expected = [Content(plain.rstrip()), CALL_F] if calls else [Content(plain + "[f]")]
    assert split([plain + "[f]"], Brackets([]), TOOLS) == expected
    assert split(plain + "[f]", Brackets([]), TOOLS) == expected


def test_calls_do_not_count_as_places_that_were_no_markup() -> None:
    assert split(["[f]" * 40 + "[!]" + "[g]"], Brackets([]), TOOLS) == [CALL_F] * 40 + [Content("[!]"), CALL_G]


def test_nothing_is_held_back_any_more_once_the_rest_is_content() -> None:
    splitter = ToolSplitter(HERMES, TOOLS)
    splitter.feed('<tool_call>{"name":"nobody"}</tool_call>' * 32)
    assert splitter.feed("a <tool") == [Content("a <tool")]
    assert splitter.feed("_call>") == [Content("_call>")]
    assert not splitter.buffering


@given(st.lists(st.sampled_from(["[!]", "[f]", "[", "]", "<<[", "!", " "]), min_size=30, max_size=90), st.data())
def test_every_cut_gives_the_same_around_the_last_place_looked_at(pieces: list[str], data: st.DataObject) -> None:
    text = "[!]" * 28 + "".join(pieces)
    whole = split([text], Brackets([]), TOOLS)
    assert split(cut(text, data), Brackets([]), TOOLS) == whole
    assert split(text, Brackets([]), TOOLS) == whole


@pytest.mark.parametrize("cut", range(1, len("</tool_call>")))
def test_a_closing_mark_that_was_cut_off_is_no_content(cut: int) -> None:
    splitter = ToolSplitter(HERMES, {"ping": {}})
    said = splitter.feed('<tool_call>\n{"name": "ping", "arguments": {}}\n' + "</tool_call>"[:cut])
    assert [*said, *splitter.flush()] == [ToolCall("ping", "{}")]
