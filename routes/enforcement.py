"""Constraints that make a model call a tool, or let it choose between a call and a constrained answer. Pure.

They are structural tags: a frame of literal markup around each function's arguments, which follow its JSON schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from actors.errors import InvalidRequest
from actors.generation.grammar.constraint import Constraint
from routes.arguments import BRACKETS, ELEMENTS, MOST_WHITESPACE, BracketNotation, ElementNotation
from routes.schema.tools import Toolbox

_NAME = "NAME"
_QUOTED = '"name": "NAME"'
"""Where a name is a JSON string."""
_ANY_OBJECT = {"type": "object"}
_ANY_JSON = {"type": ["object", "array"]}
"""As `Constraint` has it for the kind `json`."""
MOST_CHARACTERS = 2 << 20
"""Of an enforced constraint, with the schemas of all tools."""
Notation = ElementNotation | BracketNotation


@dataclass(frozen=True, slots=True)
class Frame:
    """How one family writes a call. `NAME` stands for the function's name."""

    begin: str
    """Everything before the arguments."""
    end: str
    """Everything after them."""
    style: str | Notation = "json"
    """How arguments are written: a style of xgrammar's, or a notation of our own."""
    separator: str | None = "\n"
    """Between two calls; None where only one call is enforced."""
    around: tuple[str, str] = ("", "")
    """What stands around all calls together."""


FRAMES: Mapping[str, Frame] = {
    "hermes": Frame('<tool_call>\n{"name": "NAME", "arguments": ', "}\n</tool_call>"),
    "qwen_xml": Frame("<tool_call>\n<function=NAME>\n", "\n</function>\n</tool_call>", "qwen_xml"),
    "glm": Frame("<tool_call>NAME\n", "</tool_call>", "glm_xml"),
    "minicpm": Frame('<function name="NAME">', "</function>", ELEMENTS["minicpm"]),
    "longcat": Frame("<longcat_tool_call>NAME\n", "</longcat_tool_call>", ELEMENTS["longcat"]),
    "minimax": Frame(
        '<invoke name="NAME">\n',
        "</invoke>\n",
        "minimax_xml",
        "",
        ("<minimax:tool_call>\n", "</minimax:tool_call>"),
    ),
    "muse_spark": Frame(
        '<atem:invoke name="NAME">\n',
        "</atem:invoke>\n",
        ELEMENTS["muse_spark"],
        "",
        ("<atem:function_calls>\n", "</atem:function_calls>"),
    ),
    "gemma4": Frame("<|tool_call>call:NAME", "<tool_call|>", "gemma", ""),
    "function_gemma": Frame("<start_function_call>call:NAME", "<end_function_call>", BRACKETS["function_gemma"], ""),
    "mistral": Frame("[TOOL_CALLS]NAME[ARGS]", "", "json", ""),
    "mistral_list": Frame('{"name": "NAME", "arguments": ', "}", "json", ", ", ("[TOOL_CALLS] [", "]")),
    "llama": Frame('{"name": "NAME", "parameters": ', "}", "json", "; "),
    "pythonic": Frame("NAME", "", BRACKETS["pythonic"], ", ", ("[", "]")),
    "lfm2": Frame("NAME", "", BRACKETS["pythonic"], ", ", ("<|tool_call_start|>[", "]<|tool_call_end|>")),
    "deepseek_fenced": Frame(
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n",
        "\n```<｜tool▁call▁end｜>",
        "json",
        "\n",
        ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ),
    "deepseek": Frame(
        "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "json",
        "",
        ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ),
    "deepseek_dsml": Frame(
        '<｜DSML｜invoke name="NAME">\n',
        "</｜DSML｜invoke>\n",
        "deepseek_xml",
        "",
        ("<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>"),
    ),
    "kimi": Frame(
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>",
        "<|tool_call_end|><|tool_calls_section_end|>",
        "json",
        None,
    ),
    "harmony": Frame("<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>", "", "json", None),
}
"""By name of the tool format, or of a dialect of it."""
_TAGGED: Mapping[str, str] = {"<function name=": "minicpm", "<function=": "qwen_xml", "<arg_key>": "glm"}
"""What in a template tells which of the families that share a tag it is."""


def frame_of(format_name: str, template: str, tokens: frozenset[str]) -> Frame:
    """How this model writes calls.

    Args:
        format_name: of its tool format.
        template: text of its chat template, which tells the dialects of a format apart.
        tokens: its special and added tokens.
    """
    if format_name == "tagged":
        format_name = next((name for mark, name in _TAGGED.items() if mark in template), "hermes")
    if format_name == "mistral" and "[ARGS]" not in tokens:
        format_name = "mistral_list"
    if format_name == "deepseek" and "```json" in template:
        format_name = "deepseek_fenced"
    return FRAMES[format_name]


def enforced(
    toolbox: Toolbox, constraint: Constraint | None, frame: Frame, channels: bool = False
) -> Constraint | None:
    """The constraint of an answer that may, or must, be a call.

    Args:
        toolbox: what may be called. A choice of `required` leaves nothing but calls.
        constraint: on the content of an answer that is no call.
        frame: how calls are written.
        channels: whether every part of an answer is a message on a channel, as in harmony; the constraint then spells
            the headers, and leaves room for thinking before the answer.

    Raises:
        InvalidRequest: the tools are too large for it, or a name cannot be written as this model writes calls.
    """
    if not toolbox.tools or (toolbox.choice == "auto" and constraint is None):
        return _structural(_channelled([_final(constraint)])) if constraint and channels else constraint
    calls = _calls(toolbox, frame)
    if toolbox.choice == "required":
        return _structural(_channelled([calls]) if channels else calls)
    assert constraint is not None
    if channels:
        return _structural(_channelled([_final(constraint), calls]))
    return replace(_structural({"type": "or", "elements": [_content(constraint), calls]}), after=constraint.after)


def _structural(format: object) -> Constraint:
    source = msgspec.json.encode({"type": "structural_tag", "format": format}).decode()
    if len(source) > MOST_CHARACTERS:
        raise InvalidRequest(f"tools must have at most {MOST_CHARACTERS} characters where their calls are enforced")
    return Constraint("structural", source)


def _channelled(answers: Sequence[object]) -> dict[str, object]:
    """Thinking, or none, then one of the answers."""
    thinking = {
        "type": "tag",
        "begin": "<|channel|>analysis<|message|>",
        "content": {"type": "any_text", "excludes": ["<|end|>"]},
        "end": "<|end|><|start|>assistant",
    }
    answer = {"type": "or", "elements": list(answers)} if len(answers) > 1 else answers[0]
    return {"type": "sequence", "elements": [{"type": "optional", "content": thinking}, answer]}


def _final(constraint: Constraint) -> dict[str, object]:
    header = {"type": "const_string", "value": "<|channel|>final<|message|>"}
    return {"type": "sequence", "elements": [header, _content(constraint)]}


def _calls(toolbox: Toolbox, frame: Frame) -> dict[str, object]:
    tags = [_tag(name, schema, frame) for name, schema in toolbox.schemas.items()]
    one = toolbox.name is not None or not toolbox.parallel or frame.separator is None
    calls = {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": frame.separator or "",
        "at_least_one": True,
        "stop_after_first": one,
    }
    if frame.around == ("", ""):
        return calls
    before, after = ({"type": "const_string", "value": text} for text in frame.around)
    return {"type": "sequence", "elements": [before, calls, after]}


def _tag(name: str, schema: Mapping[str, object], frame: Frame) -> dict[str, object]:
    if isinstance(frame.style, str):
        content: dict[str, object] = {
            "type": "json_schema",
            "json_schema": schema or _ANY_OBJECT,
            "style": frame.style,
            "max_whitespace_cnt": MOST_WHITESPACE,
        }
    else:
        frame.style.check(name)
        content = frame.style.format(schema)
    return {"type": "tag", "begin": _begin(name, frame), "content": content, "end": frame.end}


def _begin(name: str, frame: Frame) -> str:
    if _QUOTED in frame.begin:
        return frame.begin.replace(_QUOTED, f'"name": {msgspec.json.encode(name).decode()}')
    return frame.begin.replace(_NAME, name)


def _content(constraint: Constraint) -> dict[str, object]:
    source = constraint.source
    if constraint.kind in ("json", "json_schema"):
        schema = msgspec.json.decode(source) if constraint.kind == "json_schema" else _ANY_JSON
        content: dict[str, object] = {
            "type": "json_schema",
            "json_schema": schema,
            "max_whitespace_cnt": MOST_WHITESPACE,
        }
        # Beyond structural tags; the scheduler writes them out (actors/generation/grammar/recipe.py).
        if not constraint.any_whitespace:
            content["any_whitespace"] = False
        if not constraint.strict:
            content["strict"] = False
        return content
    if constraint.kind == "regex":
        return {"type": "regex", "pattern": source}
    if constraint.kind == "choice":
        words = [{"type": "const_string", "value": word} for word in msgspec.json.decode(source, type=list[str])]
        return {"type": "or", "elements": words}
    return {"type": "grammar", "grammar": source}
