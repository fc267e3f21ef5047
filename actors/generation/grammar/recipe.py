"""From a constraint to xgrammar's compiled grammar. Runs in the child that tries it out, then in the scheduler."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from actors.generation.grammar.constraint import Constraint

if TYPE_CHECKING:
    from xgrammar import CompiledGrammar, GrammarCompiler

MOST_WHITESPACE = 20
"""Whitespace characters in a row between two JSON tokens: a newline and nine levels of indentation."""
_UNSAFE = frozenset(['"', "\\", "\x7f", *map(chr, range(32))])
_ANY_JSON = '{"type": ["object", "array"]}'


def build(compiler: GrammarCompiler, constraint: Constraint) -> CompiledGrammar:
    """Compile. Blocks, for a hostile source without limit; the GIL is released meanwhile.

    Raises:
        ValueError: the source is not what its kind says.
        RuntimeError: xgrammar does not accept it.
    """
    match constraint.kind:
        case "json":
            return _schema(compiler, _ANY_JSON, constraint.any_whitespace, strict=False)
        case "json_schema":
            _check_patterns(_document(constraint.source))
            return _schema(compiler, constraint.source, constraint.any_whitespace, constraint.strict)
        case "ebnf":
            return compiler.compile_grammar(constraint.source)
        case "regex":
            return compiler.compile_regex(unanchored(constraint.source))
        case "choice":
            return compiler.compile_grammar(choice_grammar(json.loads(constraint.source)))
        case "structural":
            document = _document(constraint.source)
            _check_patterns(document)
            return compiler.compile_structural_tag(
                constraint.source if document is None else json.dumps(_plain(document))
            )
        case "free":
            raise ValueError("any text needs no grammar")


def _schema(compiler: GrammarCompiler, source: str, any_whitespace: bool, strict: bool) -> CompiledGrammar:
    if any_whitespace:
        # Without the bound a model that likes whitespace would write it until max_tokens.
        return compiler.compile_json_schema(source, strict_mode=strict, max_whitespace_cnt=MOST_WHITESPACE)
    return compiler.compile_json_schema(source, strict_mode=strict, any_whitespace=False, separators=(",", ":"))


def _plain(node: object) -> object:
    """A structural tag with those schemas written out that it has no switches for: compact and open ones."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "json_schema" and node.keys() & {"any_whitespace", "strict"}:
        return {"type": "grammar", "grammar": _written_out(node)}
    # Schemas are data here: what looks like a format in them is none.
    return {key: value if key == "json_schema" else _plain(value) for key, value in node.items()}


def _written_out(node: dict[str, Any]) -> str:
    from xgrammar import Grammar

    spaced = node.get("any_whitespace", True)
    return str(
        Grammar.from_json_schema(
            json.dumps(node["json_schema"]),
            any_whitespace=spaced,
            separators=None if spaced else (",", ":"),
            strict_mode=node.get("strict", True),
            max_whitespace_cnt=node["max_whitespace_cnt"] if spaced else None,
        )
    )


def _check_patterns(node: object) -> None:
    """xgrammar drops what it does not know of a pattern within a schema, and refuses it elsewhere: refuse it here too.

    Raises:
        RuntimeError: a pattern holds such a thing.
    """
    if isinstance(node, list):
        for item in node:
            _check_patterns(item)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key == "pattern" and isinstance(value, str):
            _check_pattern(value)
        elif key == "patternProperties" and isinstance(value, dict):
            for pattern in value:
                _check_pattern(pattern)
        _check_patterns(value)


def _document(source: str) -> object:
    """Parsed JSON; None for what is none, or too deep: xgrammar says it better."""
    try:
        return json.loads(source)
    except (ValueError, RecursionError):
        return None


def _check_pattern(pattern: str) -> None:
    from xgrammar import Grammar

    Grammar.from_regex(pattern)


def choice_grammar(choices: list[str]) -> str:
    """An EBNF grammar of exactly these texts.

    Raises:
        ValueError: there are none.
    """
    if not choices:
        raise ValueError("there is nothing to choose from")
    return "root ::= " + " | ".join(f'"{_escaped(text)}"' for text in dict.fromkeys(choices))


def _escaped(text: str) -> str:
    # Not `\\x22`: xgrammar reads as many hexadecimal digits after an `x` as there are.
    return "".join(f"\\u{ord(letter):04x}" if letter in _UNSAFE else letter for letter in text)


def unanchored(regex: str) -> str:
    """The expression without `^` and `$` at the ends of its branches, where they say what holds anyway.

    Raises:
        ValueError: an anchor stands anywhere else, so that nothing could match.
    """
    kept: list[str] = []
    position, in_class = 0, False
    while position < len(regex):
        letter = regex[position]
        piece = regex[position : position + 2] if letter == "\\" else letter
        if in_class:
            in_class = letter != "]"
        elif letter == "[":
            in_class = True
            # A `]` or `^]` right after the bracket is handled as xgrammar reads it: the class ends there.
        elif letter in "^$":
            _check_anchor(regex, position)
            piece = ""
        kept.append(piece)
        position += max(1, len(piece))
    return "".join(kept)


def _check_anchor(regex: str, position: int) -> None:
    before, after = regex[:position], regex[position + 1 :]
    if regex[position] == "^":
        fine = before == "" or before.endswith(("(", "|", "(?:"))
        # `\(` is a letter, not a group.
        fine = fine and (before == "" or not before.endswith(("\\(", "\\|")))
    else:
        fine = after == "" or after.startswith((")", "|"))
    if not fine:
        raise ValueError(f"'{regex[position]}' at position {position} can never match")
