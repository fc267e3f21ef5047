"""How each family of models writes tool calls: a checkpoint that shows it in its template, and the text of an answer.

The texts are written here anew from what the families' templates say, not with anything of the server's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import scripted

Call = tuple[str, Mapping[str, object]]
"""Name and arguments."""
Write = Callable[[str, Sequence[Call]], str]
"""Text of an answer: prose, which may be empty, then calls."""


@dataclass(frozen=True)
class Form:
    """One way of writing."""

    label: str
    """Names it in the tests."""
    sign: tuple[str, str]
    """What stands around a call in the chat template; the server goes by it."""
    write: Write
    """Writes an answer."""
    closing: str
    """What would end a call if it did not stand inside of a string."""
    special: tuple[str, ...] = ()
    """Special tokens."""
    added: tuple[str, ...] = ()
    """Tokens of their own that are text all the same."""
    ends: tuple[str, ...] = ()
    """Special tokens that end an answer."""

    def checkpoint(self, folder: Path, opening: str = "") -> Path:
        """A model that writes like this when its user says so; `opening` begins the assistant's turn."""
        call = f"{self.sign[0]}{{{{ call.function.name }}}} {{{{ call.function.arguments | tojson }}}}{self.sign[1]}"
        return scripted.checkpoint(folder, scripted.template(call, opening), self.special, self.added, self.ends)


def dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(value: object) -> str:
    """A raw value: strings as they are."""
    return value if isinstance(value, str) else dumps(value)


def hermes(prose: str, calls: Sequence[Call]) -> str:
    envelopes = [dumps({"name": name, "arguments": arguments}) for name, arguments in calls]
    return "\n".join([prose, *(f"<tool_call>\n{envelope}\n</tool_call>" for envelope in envelopes)])


def qwen_xml(prose: str, calls: Sequence[Call]) -> str:
    written = [prose]
    for name, arguments in calls:
        values = [f"<parameter={key}>\n{_text(value)}\n</parameter>\n" for key, value in arguments.items()]
        written.append(f"<tool_call>\n<function={name}>\n{''.join(values)}</function>\n</tool_call>")
    return "\n".join(written)


def glm(prose: str, calls: Sequence[Call]) -> str:
    written = [prose]
    for name, arguments in calls:
        pairs = [
            f"<arg_key>{key}</arg_key>\n<arg_value>{_text(value)}</arg_value>\n" for key, value in arguments.items()
        ]
        written.append(f"<tool_call>{name}\n{''.join(pairs)}</tool_call>")
    return "\n".join(written)


def minicpm(prose: str, calls: Sequence[Call]) -> str:
    written = [prose]
    for name, arguments in calls:
        values = [f'<param name="{key}"><![CDATA[{_text(value)}]]></param>' for key, value in arguments.items()]
        written.append(f'<function name="{name}">{"".join(values)}</function>')
    return "\n".join(written)


def minimax(prose: str, calls: Sequence[Call]) -> str:
    invokes = []
    for name, arguments in calls:
        values = [f'<parameter name="{key}">{_text(value)}</parameter>\n' for key, value in arguments.items()]
        invokes.append(f'<invoke name="{name}">\n{"".join(values)}</invoke>\n')
    return f"{prose}\n<minimax:tool_call>\n{''.join(invokes)}</minimax:tool_call>"


def _gemma(opener: str, closer: str, quote: str) -> Write:
    def value(item: object) -> str:
        if isinstance(item, str):
            return quote + item + quote
        if isinstance(item, Mapping):
            return "{" + ",".join(f"{key}:{value(inner)}" for key, inner in item.items()) + "}"
        if isinstance(item, list):
            return "[" + ",".join(map(value, item)) + "]"
        return dumps(item)

    def write(prose: str, calls: Sequence[Call]) -> str:
        return prose + "".join(f"{opener}call:{name}{value(arguments)}{closer}" for name, arguments in calls)

    return write


def mistral_list(prose: str, calls: Sequence[Call]) -> str:
    return f"{prose}[TOOL_CALLS] " + dumps([{"name": name, "arguments": arguments} for name, arguments in calls])


def mistral_named(prose: str, calls: Sequence[Call]) -> str:
    return prose + "".join(f"[TOOL_CALLS]{name}[ARGS]{dumps(arguments)}" for name, arguments in calls)


def llama(prose: str, calls: Sequence[Call]) -> str:
    tag = "<|python_tag|>" if prose else ""
    return prose + tag + "; ".join(dumps({"name": name, "parameters": arguments}) for name, arguments in calls)


def pythonic(prose: str, calls: Sequence[Call]) -> str:
    written = [f"{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})" for name, args in calls]
    listed = f"[{', '.join(written)}]"
    return f"{prose}<|python_start|>{listed}<|python_end|>" if prose else listed


def _deepseek(call: Callable[[str, str], str]) -> Write:
    def write(prose: str, calls: Sequence[Call]) -> str:
        written = [
            f"<｜tool▁call▁begin｜>{call(name, dumps(arguments))}<｜tool▁call▁end｜>" for name, arguments in calls
        ]
        return f"{prose}<｜tool▁calls▁begin｜>{''.join(written)}<｜tool▁calls▁end｜>"

    return write


def dsml(prose: str, calls: Sequence[Call]) -> str:
    written = []
    for name, arguments in calls:
        values = [
            f'<｜DSML｜parameter name="{key}" string="{dumps(isinstance(value, str))}">{_text(value)}'
            "</｜DSML｜parameter>\n"
            for key, value in arguments.items()
        ]
        written.append(f'<｜DSML｜invoke name="{name}">\n{"".join(values)}</｜DSML｜invoke>\n')
    return f"{prose}\n\n<｜DSML｜function_calls>\n{''.join(written)}</｜DSML｜function_calls>"


def kimi(prose: str, calls: Sequence[Call]) -> str:
    written = [
        f"<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>{dumps(arguments)}<|tool_call_end|>"
        for index, (name, arguments) in enumerate(calls)
    ]
    return f"{prose}<|tool_calls_section_begin|>{''.join(written)}<|tool_calls_section_end|>"


def harmony(prose: str, calls: Sequence[Call]) -> str:
    messages = [f"commentary<|message|>{prose}"] if prose else []
    messages += [
        f"commentary to=functions.{name} <|constrain|>json<|message|>{dumps(arguments)}" for name, arguments in calls
    ]
    return "<|end|><|start|>assistant".join(f"<|channel|>{message}" for message in messages)


_TAGS = ("<tool_call>", "</tool_call>")
_MARKS = (
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
)
_SECTION = (
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>"),
    "<|tool_call_argument_begin|>",
)
_CHANNELS = ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>")

FORMS = [
    Form("hermes", _TAGS, hermes, "</tool_call>", added=_TAGS),
    Form("qwen_xml", ("<tool_call><function=", "</tool_call>"), qwen_xml, "</function></tool_call>", added=_TAGS),
    Form(
        "glm",
        ("<tool_call><arg_key>", "</tool_call>"),
        glm,
        "</tool_call>",
        added=(*_TAGS, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    ),
    Form("minicpm", ('<function name="', "</function>"), minicpm, "</param></function>", added=("</function>",)),
    Form(
        "minimax",
        ("<minimax:tool_call>", "</minimax:tool_call>"),
        minimax,
        "</invoke></minimax:tool_call>",
        added=("<minimax:tool_call>", "</minimax:tool_call>"),
    ),
    Form(
        "gemma4",
        ("<|tool_call>", "<tool_call|>"),
        _gemma("<|tool_call>", "<tool_call|>", '<|"|>'),
        "}<tool_call|>",
        special=("<|tool_call>", "<tool_call|>", '<|"|>'),
    ),
    Form(
        "function_gemma",
        ("<start_function_call>", "<end_function_call>"),
        _gemma("<start_function_call>", "<end_function_call>", "<escape>"),
        "}<end_function_call>",
        special=("<start_function_call>", "<end_function_call>", "<escape>"),
    ),
    Form("mistral_list", ("[TOOL_CALLS]", ""), mistral_list, "}][TOOL_CALLS]", special=("[TOOL_CALLS]",)),
    Form("mistral_named", ("[TOOL_CALLS]", ""), mistral_named, "}[TOOL_CALLS]", special=("[TOOL_CALLS]", "[ARGS]")),
    Form("llama", ("<|python_tag|>", ""), llama, "}}; {", special=("<|python_tag|>",)),
    Form(
        "pythonic",
        ("<|python_start|>", "<|python_end|>"),
        pythonic,
        ")]<|python_end|>",
        special=("<|python_start|>", "<|python_end|>"),
    ),
    Form(
        "deepseek_v3",
        ("<｜tool▁calls▁begin｜>```json", "<｜tool▁calls▁end｜>"),
        _deepseek(lambda name, arguments: f"function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```"),
        "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        special=_MARKS,
    ),
    Form(
        "deepseek_v31",
        ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        _deepseek(lambda name, arguments: f"{name}<｜tool▁sep｜>{arguments}"),
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        added=_MARKS,
    ),
    Form("deepseek_dsml", ("<｜DSML｜", ""), dsml, "</｜DSML｜invoke>", special=("｜DSML｜",)),
    Form(
        "kimi",
        ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        kimi,
        "<|tool_call_end|><|tool_calls_section_end|>",
        special=_SECTION,
    ),
    Form(
        "harmony",
        ("<|channel|>commentary<|message|>", "<|call|>"),
        harmony,
        '"}',
        special=_CHANNELS,
        ends=("<|return|>", "<|call|>"),
    ),
]
"""All of them."""
