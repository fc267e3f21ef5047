"""Descriptions of bodies and their readers say the same."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

from actors.errors import InvalidRequest
from routes.schema import fields
from tests.routes.openapi.bodies import EXAMPLES, READERS

PROBES: list[Any] = [
    *(None, True, False, 0, 1, 3, -1, -1000, 1001, 2**54, -(2**70), 0.5, 1.5, -0.5, 1e7),
    *("", " ", "x", "none", "low", "text", "x" * 2000, "x" * 600),
    *([], ["x"], [""], [5], [[]], [{}], ["x"] * 100, [{"type": "text"}], {}, {"x": 1}, {"type": 5}, {"type": "x"}),
]
Place = tuple[str | int, ...]
BODIES = pytest.mark.parametrize("model", list(READERS), ids=lambda model: model.__name__)

# What one field may be depends on others, or on more than a schema says. (Body, field): the reader is stricter there.
STRICTER = {
    ("ChatBody", "messages[].content"): "of an assistant alone may it be null, and parts are of known types",
    ("ChatBody", "messages[].content[].type"): "known types, of which the model takes some",
    ("ChatBody", "messages[].content[].text"): "belongs to text",
    ("ChatBody", "messages[].reasoning"): "of an assistant it is text",
    ("ChatBody", "messages[].reasoning_content"): "of an assistant it is text",
    ("ChatBody", "messages[].role"): "calls belong to an assistant",
    ("ChatBody", "messages[].tool_calls[].function.arguments"): "text of an object",
    ("ChatBody", "messages[].tool_calls"): "belong to an assistant",
    ("ChatBody", "tools"): "holds what tool_choice names",
    ("ChatBody", "tool_choice"): "names one of tools",
    ("ChatBody", "tools[].function.name"): "is what tool_choice names",
    ("ChatBody", "tool_choice.function.name"): "is one of tools",
    ("MessagesBody", "messages[].content"): "blocks are of known types, and of a system message alone may it be null",
    ("MessagesBody", "messages[].content[].type"): "known types",
    ("MessagesBody", "messages[].role"): "content follows the role",
    ("MessagesBody", "system"): "blocks are of known types",
    ("MessagesBody", "system[].type"): "known types",
    ("MessagesBody", "tools"): "holds what tool_choice names",
    ("MessagesBody", "tools[].name"): "is what tool_choice names",
    ("MessagesBody", "tools[].input_schema"): "without it the tool is left out",
    ("MessagesBody", "tool_choice.name"): "is one of tools",
    ("MessagesBody", "thinking.budget_tokens"): "belongs to enabled thinking",
    ("ResponsesBody", "input"): "items are of known types, and one of them is a message",
    ("ResponsesBody", "input[].type"): "known types",
    ("ResponsesBody", "tools[].name"): "of a function it is required, and tool_choice names it",
    ("ResponsesBody", "tools"): "holds what tool_choice names",
    ("ResponsesBody", "tools[].type"): "what is left out cannot be named",
    ("ResponsesBody", "tool_choice"): "names one of tools",
    ("ResponsesBody", "tool_choice.type"): "says which fields are read",
    ("ResponsesBody", "tool_choice.tools"): "is required by its type",
    ("ResponsesBody", "structured_outputs"): "a schema that is one",
    ("EmbeddingsBody", "input"): "an instruction goes with text",
    ("AudioBody", "file"): "base64",
    ("AudioBody", "language"): "one that Whisper knows",
    ("AudioBody", "temperature"): "beams go with 0",
    ("AudioBody", "without_timestamps"): "words need times",
    ("AudioSessionBody", "language"): "one that Whisper knows",
    ("AudioSessionBody", "temperature"): "beams go with 0",
    ("AudioSessionBody", "without_timestamps"): "words need times",
    ("ResponsesBody", "tools[].description"): "of functions and custom tools, and of nothing else",
    ("ResponsesBody", "tools[].parameters"): "of functions, and of nothing else",
    ("ResponsesBody", "tools[].format"): "of custom tools, and of nothing else",
}
# (Body, field): the reader takes more than is described, because another field of the example goes first.
LOOSER = {
    ("ChatBody", "guided_regex"): "guided_grammar goes first",
    ("TextBody", "guided_regex"): "guided_grammar goes first",
    ("ResponsesBody", "guided_regex"): "guided_grammar goes first",
    ("ResponsesBody", "max_tokens"): "max_output_tokens goes first",
    ("ResponsesBody", "tool_choice.name"): "belongs to other types",
    ("MessagesBody", "tool_choice"): "an empty one says nothing",
    ("MessagesBody", "output_format"): "output_config.format goes first",
    ("MessagesBody", "output_format.type"): "output_config.format goes first",
    ("MessagesBody", "output_format.name"): "output_config.format goes first",
    ("MessagesBody", "output_format.schema"): "output_config.format goes first",
    ("MessagesBody", "output_format.strict"): "output_config.format goes first",
    ("MessagesBody", "output_format.any_whitespace"): "output_config.format goes first",
    ("AudioBody", "file"): "an object that holds nothing says nothing",
    ("AudioBody", "audio"): "file goes first",
    ("AudioBody", "input_audio"): "file goes first",
    ("AudioBody", "input_audio.data"): "file goes first",
}
# Refused by name.
NOT_HEARD = {"include", "chunking_strategy", "known_speaker_names", "known_speaker_references"}
# Refused, or read from a copy of the body that never has them, by a reader that other protocols use too.
ABSENT = {
    "ResponsesBody": {"n", "response_format", "logprobs", "max_completion_tokens"},
    "AudioBody": NOT_HEARD,
    "AudioSessionBody": {*NOT_HEARD, "stream"},
}


def schema_of(model: type[BaseModel]) -> Any:
    return model.model_json_schema()


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every place in a document but its root."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*place, key)
        yield from places(child, (*place, key))


def name_of(place: Place) -> str:
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def described(schema: Any, root: Any, name: str = "") -> Iterator[str]:
    """Names of all described fields."""
    if "$ref" in schema:
        yield from described(root["$defs"][schema["$ref"].rpartition("/")[2]], root, name)
    for branch in schema.get("anyOf", ()):
        yield from described(branch, root, name)
    for key, child in schema.get("properties", {}).items():
        inner = f"{name}.{key}".removeprefix(".")
        yield inner
        yield from described(child, root, inner)
    if "items" in schema:
        yield from described(schema["items"], root, f"{name}[]")


def accepts(model: type[BaseModel], body: Any) -> bool:
    try:
        READERS[model](body)
    except InvalidRequest:
        return False
    return True


@BODIES
def test_an_example_that_says_everything_fits_description_and_reader(model: type[BaseModel]) -> None:
    schema = schema_of(model)
    jsonschema.Draft202012Validator(schema).validate(EXAMPLES[model])
    READERS[model](EXAMPLES[model])
    said = {name_of(place) for place in places(EXAMPLES[model])}
    assert set(described(schema, schema)) - said == set()


@BODIES
def test_what_the_description_refuses_the_reader_refuses_and_the_other_way_round(model: type[BaseModel]) -> None:
    schema = schema_of(model)
    validators = {
        name: jsonschema.Draft202012Validator({**field, "$defs": schema.get("$defs", {})})
        for name, field in schema["properties"].items()
    }
    fields_described = set(described(schema, schema))
    differing: list[str] = []
    for place in places(EXAMPLES[model]):
        name = name_of(place)
        if name not in fields_described:
            continue
        for probe in PROBES:
            body = copy.deepcopy(EXAMPLES[model])
            holder = body
            for part in place[:-1]:
                holder = holder[part]
            holder[place[-1]] = probe
            # The other fields stay as they are, so that only this one need be looked at.
            fits, taken = validators[str(place[0])].is_valid(body[place[0]]), accepts(model, body)
            known = STRICTER if fits else LOOSER
            if fits != taken and (model.__name__, name) not in known:
                differing.append(f"{name} = {probe!r:.60}: described {fits}, read {taken}")
    assert differing == []


@BODIES
def test_every_field_that_is_read_is_described(model: type[BaseModel], monkeypatch: pytest.MonkeyPatch) -> None:
    read = watch(monkeypatch)
    READERS[model](Spy(EXAMPLES[model], read))
    schema = schema_of(model)
    assert read > {"temperature"} or model.__name__ == "EmbeddingsBody"
    assert {name for name in read if not open_ended(name)} - set(described(schema, schema)) == ABSENT.get(
        model.__name__, set()
    )


class Spy(dict[str, Any]):
    """A body that notes which of its fields somebody looks at."""

    def __init__(self, body: Any, read: set[str]) -> None:
        super().__init__(body)
        self._read = read

    def get(self, key: str, default: Any = None) -> Any:
        self._read.add(key)
        return super().get(key, default)


def watch(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the fields that the readers of routes/schema/fields.py are asked for, from now on."""
    read: set[str] = set()
    readers = {name: value for name, value in vars(fields).items() if isinstance(value, FunctionType)}
    readers = {name: value for name, value in readers.items() if value.__code__.co_varnames[:2] == ("body", "name")}
    assert len(readers) >= 7

    def watched(reader: Any) -> Any:
        def noting(body: Any, name: str, *bounds: Any) -> Any:
            read.add(re.sub(r"\[\d+\]", "[]", name))
            return reader(body, name, *bounds)

        return noting

    for module in [module for name, module in sys.modules.items() if name.startswith("routes.")]:
        for name, value in list(vars(module).items()):
            if any(value is reader for reader in readers.values()):
                monkeypatch.setattr(module, name, watched(value))
    return read


def open_ended(name: str) -> bool:
    """Whether a field belongs to an object whose fields follow its type, of which only that is described."""
    return name.startswith(("input[].", "messages[].content[].", "system[].", "tools[].format."))
