"""What an answer must look like, as it travels from a route to the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["json", "json_schema", "ebnf", "regex", "choice", "structural", "free"]


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one answer may think: when it is spent, the thinking block is closed for the model."""

    tokens: int
    """Tokens of thinking at most, in all blocks together; at least 1. Marks do not count."""
    start: str
    """Text that opens a block, such as `<think>`."""
    end: str
    """Text that closes it, such as `</think>`."""
    closing: tuple[int, ...]
    """Tokens that write the closing text when the budget is spent; at least one."""
    opened: bool
    """Whether the prompt ends inside a block."""
    anywhere: bool
    """Whether a block may begin in the midst of an answer, not only as the first thing of it or behind another."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """The form of one answer. Equal constraints share one compiled grammar."""

    kind: Kind
    """How to read `source`: `json` is any JSON object or array, `free` any text (for the sake of a budget)."""
    source: str = ""
    """JSON text of a schema (`json_schema`), of an array of strings (`choice`) or of an xgrammar structural tag
    (`structural`); an EBNF grammar with a rule `root`; a regular expression that the whole answer matches; empty for
    `json` and `free`."""
    any_whitespace: bool = True
    """JSON kinds: whether whitespace is allowed between tokens (a bounded run of it), or compact separators only."""
    strict: bool = True
    """`json_schema`: whether properties and items the schema does not name are forbidden."""
    after: str | None = None
    """Text that ends a thinking block, such as `</think>`; the constraint begins after it. None: at once."""
    opens: str | None = None
    """Text that opens such a block, such as `<think>`, if the prompt has not opened one: an answer that begins with it
    is free until `after`, any other one is bound from its first token on. It counts only where it is a single token."""
    budget: Budget | None = None
    """How much the answer may think; None leaves it to the model."""
