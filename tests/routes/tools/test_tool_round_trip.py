"""Well-formed calls of every family that shares the tags, written, cut anywhere and read back."""

import json
import re
from collections.abc import Callable, Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from routes.parts import Content, ToolCall
from routes.tools.format import ToolFormat, Tools
from routes.tools.glm import GLM
from routes.tools.hermes import HERMES
from routes.tools.minicpm import MINICPM
from routes.tools.minimax import MINIMAX
from routes.tools.qwen_xml import QWEN_XML
from routes.tools.tagged import TAGGED
from tests.routes.tools.cutting import cut, split

Arguments = Mapping[str, object]
TYPES = {"s": "string", "t": "string", "i": "integer", "n": "number", "b": "boolean", "o": "object", "a": "array"}
SCHEMA = {"type": "object", "properties": {name: {"type": type} for name, type in TYPES.items()}}
TOOLS: Tools = {"f": SCHEMA, "get_weather-2": SCHEMA}

TAGS = [
    *["<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=s>", "</parameter>", "<arg_key>"],
    *["</arg_key>", "<arg_value>", "</arg_value>", '<param name="s">', "</param>", '<function name="f">', "]]>"],
    *["<![CDATA[", '<invoke name="f">', "</invoke>", '<parameter name="s">', "<minimax:tool_call>", "&lt;", "&"],
    *["</minimax:tool_call>", '{"name":"f"}', "{", "}", '"', "'", "\\", "\n", "\r", " ", "é", "😀", "a", "None", "12"],
]
texts = st.lists(st.sampled_from(TAGS), max_size=8).map("".join) | st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
nested = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "s": texts,
        "t": texts,
        "i": st.integers(),
        "n": numbers,
        "b": st.booleans(),
        "o": st.dictionaries(texts, nested, max_size=3),
        "a": st.lists(nested, max_size=3),
    },
)
calls = st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), arguments), min_size=1, max_size=3)


def raw(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def write_hermes(name: str, arguments: Arguments) -> str:
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) + "\n</tool_call>"


def write_qwen_alone(name: str, arguments: Arguments) -> str:
    parameters = [f"<parameter={key}>\n{raw(value)}\n</parameter>\n" for key, value in arguments.items()]
    return f"<function={name}>\n{''.join(parameters)}</function>"


def write_qwen(name: str, arguments: Arguments) -> str:
    return f"<tool_call>\n{write_qwen_alone(name, arguments)}\n</tool_call>"


def write_glm(name: str, arguments: Arguments) -> str:
    pairs = [f"<arg_key>{key}</arg_key>\n<arg_value>{raw(value)}</arg_value>\n" for key, value in arguments.items()]
    return f"<tool_call>{name}\n{''.join(pairs)}</tool_call>"


def write_minicpm(name: str, arguments: Arguments) -> str:
    def value(text: str) -> str:
        split = text.replace("]]>", "]]]]><![CDATA[>")
        return f"<![CDATA[{split}]]>" if re.search(r"[<&\n]|]]>", text) else text

    params = [f'<param name="{key}">{value(raw(argument))}</param>' for key, argument in arguments.items()]
    return f'<function name="{name}">{"".join(params)}</function>'


def write_minimax(name: str, arguments: Arguments) -> str:
    parameters = [f'<parameter name="{key}">{raw(value)}</parameter>\n' for key, value in arguments.items()]
    return f'<minimax:tool_call>\n<invoke name="{name}">\n{"".join(parameters)}</invoke>\n</minimax:tool_call>'


NEVER = re.compile(r"(?!)")
# What ends a raw value wherever it stands: such a value cannot be written in the family.
QWEN_END = re.compile(r"</parameter>\s*(?:<parameter=|</function>)")
GLM_END = re.compile(r"</arg_value>\s*(?:<arg_key>|</tool_call>)")
MINIMAX_END = re.compile(r"</parameter>\s*(?:<parameter\s|</invoke>)")
Write = Callable[[str, Arguments], str]
FAMILIES: list[tuple[ToolFormat, Write, re.Pattern[str]]] = [
    (HERMES, write_hermes, NEVER),
    (QWEN_XML, write_qwen, QWEN_END),
    (QWEN_XML, write_qwen_alone, QWEN_END),
    (GLM, write_glm, GLM_END),
    (MINICPM, write_minicpm, NEVER),
    (MINIMAX, write_minimax, MINIMAX_END),
    (TAGGED, write_hermes, NEVER),
    (TAGGED, write_qwen, QWEN_END),
    (TAGGED, write_qwen_alone, QWEN_END),
    (TAGGED, write_glm, GLM_END),
    (TAGGED, write_minicpm, NEVER),
]
LABELS = [f"{format.name}-{write.__name__}" for format, write, _ in FAMILIES]


@pytest.mark.parametrize(("format", "write", "ends"), FAMILIES, ids=LABELS)
@given(made=calls, data=st.data())
def test_calls_are_read_back_however_the_text_is_cut(
    format: ToolFormat, write: Write, ends: re.Pattern[str], made: list[tuple[str, Arguments]], data: st.DataObject
) -> None:
    assume(not any(ends.search(raw(value)) for _, arguments in made for value in arguments.values()))
    text = "Here:\n" + "\n".join(write(name, arguments) for name, arguments in made) + "\nDone."
    head, *read, tail = split(cut(text, data), format, TOOLS)
    assert (head, tail) == (Content("Here:"), Content("Done."))
    found = [(part.name, json.loads(part.arguments)) for part in read if isinstance(part, ToolCall)]
    assert found == made


@pytest.mark.parametrize("format", [HERMES, QWEN_XML, GLM, MINICPM, MINIMAX, TAGGED], ids=lambda format: format.name)
@given(fragments=st.lists(st.sampled_from(TAGS) | st.text(max_size=5), max_size=25), data=st.data())
def test_garbage_never_raises_and_every_cut_gives_the_same(
    format: ToolFormat, fragments: list[str], data: st.DataObject
) -> None:
    text = "".join(fragments)
    whole = split([text], format, TOOLS)
    assert split(cut(text, data), format, TOOLS) == whole
    assert split(text, format, TOOLS) == whole
    if not any(isinstance(part, ToolCall) for part in whole):
        assert "".join(part.text for part in whole if isinstance(part, Content)) == text


@pytest.mark.parametrize(("format", "write", "ends"), FAMILIES, ids=LABELS)
@given(made=calls, data=st.data())
def test_a_call_cut_off_anywhere_never_raises(
    format: ToolFormat, write: Write, ends: re.Pattern[str], made: list[tuple[str, Arguments]], data: st.DataObject
) -> None:
    text = "".join(write(name, arguments) for name, arguments in made)
    cut_off = text[: data.draw(st.integers(0, len(text)))]
    for part in split(cut(cut_off, data), format, TOOLS):
        if isinstance(part, ToolCall):
            assert isinstance(json.loads(part.arguments), dict)


@pytest.mark.parametrize(("format", "write", "ends"), FAMILIES, ids=LABELS)
def test_large_arguments_survive_in_small_pieces(format: ToolFormat, write: Write, ends: re.Pattern[str]) -> None:
    made: Arguments = {"s": 'line é </tool_call> {"a": \'}\n' * 3000, "a": [{"x": [1, {"y": "}"}]}] * 3000}
    text = write("f", made)
    assert len(text) > 100_000
    [call] = split([text[at : at + 4] for at in range(0, len(text), 4)], format, TOOLS)
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == made
