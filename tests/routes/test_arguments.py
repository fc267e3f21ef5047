"""Arguments in the notations of our own: what a schema lets through, and that the family reads it as it was meant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import InvalidRequest
from actors.generation.grammar.constraint import Constraint
from routes.enforcement import FRAMES, enforced
from routes.parts import ToolCall
from routes.schema.tools import read_tools
from routes.tools.families import format_named
from tests.routes.tools.cutting import split
from tests.support import markup

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["C", "F", 1, True]},
        "share": {"type": ["number", "null"]},
        "tree": {"$ref": "#/$defs/tree"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "more": {"type": "object"},
    },
    "required": ["days"],
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
            "required": ["name"],
        }
    },
}
FORMS = {form.label: form for form in markup.FORMS}
NAMES = ("minicpm", "function_gemma", "pythonic")


@pytest.fixture(scope="module")
def compiled() -> dict[str, xgrammar.CompiledGrammar]:
    vocabulary = [bytes([value]) for value in range(256)] + [b"</s>"]
    info = xgrammar.TokenizerInfo(
        vocabulary, vocab_type=xgrammar.VocabType.RAW, vocab_size=len(vocabulary), stop_token_ids=[256]
    )
    compiler = xgrammar.GrammarCompiler(info)
    return {name: compiler.compile_structural_tag(constraint(name).source) for name in NAMES}


def offered(parameters: Mapping[str, Any], name: str = "f") -> Any:
    return {"tools": [{"type": "function", "function": {"name": name, "parameters": parameters}}]}


def constraint(family: str, parameters: Mapping[str, Any] = SCHEMA, name: str = "f") -> Constraint:
    toolbox = read_tools({**offered(parameters, name), "tool_choice": "required"})
    found = enforced(toolbox, None, FRAMES[family])
    assert found is not None
    return found


def accepts(grammar: xgrammar.CompiledGrammar, text: str) -> bool:
    matcher = xgrammar.GrammarMatcher(grammar)
    return all(matcher.accept_token(byte) for byte in text.encode()) and (
        matcher.is_terminated() or matcher.accept_token(256)
    )


def written(family: str, arguments: Mapping[str, Any]) -> str:
    return FORMS[family].write("", [("f", arguments)]).strip()


def tree(name: str, children: list[Any] | None = None) -> dict[str, Any]:
    return {"name": name} if children is None else {"name": name, "children": children}


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
trees = st.recursive(
    st.builds(tree, texts), lambda inner: st.builds(tree, texts, st.lists(inner, max_size=2)), max_leaves=4
)
fitting = st.fixed_dictionaries(
    {"days": st.integers(-(10**9), 10**9)},
    optional={
        "city": texts,
        "unit": st.sampled_from(["C", "F", 1, True]),
        "share": st.none() | st.sampled_from([0.5, -3, 12.25]),
        "tree": trees,
        "tags": st.lists(texts, min_size=1, max_size=2),
        "more": st.dictionaries(
            st.sampled_from(["a", "b_c"]), texts | st.integers(0, 9) | st.lists(st.booleans(), max_size=2)
        ),
    },
)


@pytest.mark.parametrize("family", NAMES)
@settings(max_examples=60, deadline=None)
@given(values=fitting)
def test_what_follows_the_schema_is_let_through_and_read_as_it_was_meant(
    family: str, compiled: dict[str, xgrammar.CompiledGrammar], values: dict[str, Any]
) -> None:
    arguments = {name: values[name] for name in SCHEMA["properties"] if name in values}
    text = written(family, arguments)
    assert accepts(compiled[family], text), text
    (call,) = split([text], format_named(family), read_tools(offered(SCHEMA)).schemas)
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == arguments


WRONG: list[dict[str, Any]] = [
    {},
    {"city": "Paris"},
    {"days": "two"},
    {"days": 1.5},
    {"days": 1, "unit": "K"},
    {"days": 1, "tags": []},
    {"days": 1, "tags": ["a", "b", "c"]},
    {"days": 1, "tree": {"children": []}},
    {"days": 1, "tree": {"name": "a", "children": [{"name": 1}]}},
    {"days": 1, "nobody": 1},
]


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize("arguments", WRONG, ids=str)
def test_what_does_not_follow_it_is_not(
    family: str, compiled: dict[str, xgrammar.CompiledGrammar], arguments: dict[str, Any]
) -> None:
    assert not accepts(compiled[family], written(family, arguments))


@pytest.mark.parametrize("family", ["minicpm", "longcat", "function_gemma", "pythonic"])
def test_a_function_without_parameters_is_called_without_any(family: str) -> None:
    frame = FRAMES[family]
    vocabulary = [bytes([value]) for value in range(256)] + [b"</s>"]
    info = xgrammar.TokenizerInfo(vocabulary, vocab_size=257, stop_token_ids=[256])
    closed = {"type": "object", "properties": {}, "additionalProperties": False}
    grammar = xgrammar.GrammarCompiler(info).compile_structural_tag(constraint(family, closed).source)
    empty = {"function_gemma": "{}", "pythonic": "()"}.get(family, "")
    text = frame.around[0] + frame.begin.replace("NAME", "f") + empty + frame.end + frame.around[1]
    assert accepts(grammar, text)
    assert split([text], format_named(family), read_tools(offered(closed)).schemas) == [ToolCall("f", "{}")]


@pytest.mark.parametrize(
    ("family", "function", "argument"),
    [
        ("pythonic", "get-weather", "city"),
        ("pythonic", "f", "the city"),
        ("function_gemma", "f", "a:b"),
        ("function_gemma", "a b", "city"),
        ("minicpm", "f", 'a"b'),
        ("longcat", "f", "a<b"),
    ],
)
def test_a_name_that_cannot_be_written_is_refused(family: str, function: str, argument: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a name that this model's calls can be enforced with"):
        constraint(family, {"type": "object", "properties": {argument: {"type": "string"}}}, function)
