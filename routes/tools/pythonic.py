"""Lists of calls as Python writes them: the way of Llama 3.2 and 4, and of LFM2. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from routes.parts import ToolCall
from routes.tools.envelope import make_call
from routes.tools.format import Calls, Incomplete, NotMarkup, Scan, ToolFormat, Tools
from routes.tools.reading import Cut, pass_closer, skip_space

_TOKEN: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|'
    r"'''(?:[^\\]|\\.)*?'''|"
    r"""(?P<open>"{3}|'{3})|"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+'|["'()\[\]{}]""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<valid>[\\'\"abfnrtv0-7]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|.)", re.DOTALL
)
_BRACKETS: Final = {"(": ")", "[": "]", "{": "}"}
_CONSTANTS: Final[Mapping[str, object]] = {"true": True, "false": False, "null": None, "none": None}


@dataclass(frozen=True, slots=True)
class Pythonic:
    """A Python list of calls: `[f(a="x"), g()]`."""

    name: str
    """As settings name it."""
    opener: str
    """What may stand before the list."""
    closer: str
    """What stands after the list if the opener stands before it."""
    bare: tuple[str, ...]
    """The list's bracket if the opener may be missing."""

    @property
    def openers(self) -> tuple[str, ...]:
        """The opener."""
        return (self.opener,)

    @property
    def closers(self) -> tuple[str, ...]:
        """The closer."""
        return (self.closer,)

    @property
    def markers(self) -> tuple[str, ...]:
        """Every literal of the markup, for special tokens that would not be shown otherwise."""
        return self.opener, self.closer

    def scan(self, text: str, tools: Tools, final: bool) -> Scan:
        """Look at text that begins with the opener or with a list."""
        wrapped = text.startswith(self.opener)
        start = skip_space(text, len(self.opener) if wrapped else 0)
        plain = len(self.opener) if wrapped else 1
        if start == len(text):
            return NotMarkup(plain) if final else Incomplete()
        if not text.startswith("[", start):
            return NotMarkup(plain)
        extent = _extent(text, start)
        if not extent.complete and not final:
            return Incomplete()
        found = next(((calls, end) for source, end in extent.readings if (calls := _calls(source, tools))), None)
        if found is None:
            return NotMarkup(extent.readings[0][1] if extent.complete else plain)
        calls, end = found
        try:
            return Calls(calls, pass_closer(text, end, self.closer, final) if wrapped else end)
        except Cut:
            return Incomplete()


@dataclass(frozen=True, slots=True)
class _Extent:
    """A list as far as it goes."""

    complete: bool
    """Whether its bracket is closed."""
    readings: tuple[tuple[str, int], ...]
    """What is to be tried as Python, the best first, and up to where in the text it reads."""


def _extent(text: str, start: int) -> _Extent:
    """Find where the list that begins at `start` ends. Brackets in strings don't count."""
    pieces: list[str] = []
    expected: list[str] = []
    at = start
    whole = (0, start)
    for match in _TOKEN.finditer(text, start):
        token = match.group()
        if match["open"] or token in "\"'":
            # Half a string is not what the model meant: only the calls before it can be.
            return _Extent(False, _whole_calls(pieces, *whole))
        pieces += [text[at : match.start()], _valid_string(token) if token[0] in "\"'" else token]
        at = match.end()
        if token in _BRACKETS:
            expected.append(_BRACKETS[token])
        elif token in ")]}":
            if expected.pop() != token:
                return _Extent(True, (("", start + 1),))
            if not expected:
                return _Extent(True, (("".join(pieces), at),))
            whole = (len(pieces), at) if len(expected) == 1 else whole
    closed = "".join([*pieces, text[at:], *reversed(expected)])
    # After an opening bracket, nothing says that it was to be empty.
    bare = text.rstrip().endswith(tuple(_BRACKETS))
    readings = _whole_calls(pieces, *whole)
    return _Extent(False, readings if bare else ((closed, len(text)), *readings))


def _whole_calls(pieces: list[str], count: int, end: int) -> tuple[tuple[str, int], ...]:
    """The reading of a list up to its last whole call: the first `count` pieces, if any, which go up to `end`."""
    return (("".join([*pieces[:count], "]"]), end),) if count else ()


def _valid_string(literal: str) -> str:
    """A string literal as Python has it: models leave line breaks as they are, and backslashes alone."""
    escaped = _ESCAPE.sub(lambda found: found.group() if found["valid"] else "\\" + found.group(), literal)
    return escaped.replace("\r", "\\r").replace("\n", "\\n")


def _calls(source: str, tools: Tools) -> tuple[ToolCall, ...]:
    """The calls that the source lists; none if anything in it is not a call of an offered function."""
    try:
        body = ast.parse(source, mode="eval").body
        calls = [_call(node, tools) for node in body.elts] if isinstance(body, ast.List) else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    known = [call for call in calls if call is not None]
    return tuple(known) if len(known) == len(calls) else ()


def _call(node: ast.expr, tools: Tools) -> ToolCall | None:
    if not isinstance(node, ast.Call) or node.args:
        return None
    arguments: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            return None
        arguments[keyword.arg] = _literal(keyword.value)
    return make_call(ast.unparse(node.func), arguments, tools)


def _literal(node: ast.expr) -> object:
    """The value of a literal. Raises `ValueError` for everything else."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_key(key): _literal(value) for key, value in zip(keys, values, strict=True)}
        case _:
            raise ValueError("not a literal")


def _key(node: ast.expr | None) -> str:
    """The key of a dictionary. Raises `ValueError` if it is no string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("not a string")


PYTHONIC: Final = Pythonic("pythonic", "<|python_start|>", "<|python_end|>", ("[",))
LFM2: Final = Pythonic("lfm2", "<|tool_call_start|>", "<|tool_call_end|>", ())
FORMATS: tuple[ToolFormat, ...] = (PYTHONIC, LFM2)


def detects(template: str, tokens: frozenset[str]) -> ToolFormat | None:
    """The family of a model with this chat template and these special tokens, if it lists calls as Python does."""
    for family in (LFM2, PYTHONIC):
        if family.opener in template or family.opener in tokens:
            return family
    return PYTHONIC if "[func_name1(" in template else None
