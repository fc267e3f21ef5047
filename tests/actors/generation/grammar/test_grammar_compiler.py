from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
import pytest

from actors.generation.grammar.compiler import Compiled, GrammarHouse, Refused
from actors.generation.grammar.constraint import Constraint
from actors.generation.grammar.prover import Bounds, Prover
from actors.generation.grammar.tokens import Tokens
from actors.generation.grammar.wire import Verdict

PERSON = Constraint("json_schema", '{"type": "object", "properties": {"name": {"type": "string"}}}')
BOUNDS = Bounds(seconds=2.0)


@asynccontextmanager
async def house(tokens: Tokens, cache_bytes: int = 64 << 20, bounds: Bounds = BOUNDS) -> AsyncIterator[GrammarHouse]:
    made = GrammarHouse(tokens, cache_bytes, bounds)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """No child: every constraint is found fine."""

    async def prove(prover: Prover, constraint: Constraint) -> Verdict:
        return Verdict()

    monkeypatch.setattr(Prover, "prove", prove)


def nested(levels: int) -> str:
    return '{"type":"object","properties":{"a":' * levels + '{"type":"string"}' + "}}" * levels


async def test_hostile_constraints_cost_their_own_request_and_nothing_else(starter_tokens: Tokens) -> None:
    hostile = [
        Constraint("regex", "(a{1,1000}){1,1000}"),
        Constraint("regex", "(a*)*" * 1000),
        Constraint("regex", "(" * 20000 + "a" + ")" * 20000),
        Constraint("json_schema", nested(1000)),
        Constraint("json_schema", nested(5000)),
        Constraint("json_schema", json.dumps({"enum": [f"{index:032d}" for index in range(30000)]})),
        Constraint("ebnf", "root ::= " + "(" * 50000 + '"a"' + ")" * 50000),
        Constraint("ebnf", 'root ::= x x x x x x\nx ::= x x | "a" | "aa" | [a-z]* | ""'),
    ]
    async with house(starter_tokens) as grammars:
        await grammars.warm()
        for constraint in hostile:
            async with asyncio.timeout(30):
                await grammars.compile(constraint)
                other = Constraint("regex", f"a{len(constraint.source)}")
                assert isinstance(await grammars.compile(other), Compiled)
        assert isinstance(await grammars.compile(hostile[1]), Refused)
        assert isinstance(await grammars.compile(hostile[3]), Refused)
        assert isinstance(await grammars.compile(hostile[5]), Refused)
        assert isinstance(await grammars.compile(hostile[7]), Refused)


async def test_what_is_no_grammar_is_refused_in_words(starter_tokens: Tokens) -> None:
    bad = {
        Constraint("ebnf", 'root ::= "a'): 'Expect " in string literal',
        Constraint("ebnf", "root ::= other"): 'Rule "other" is not defined',
        Constraint("ebnf", "root ::= root"): "no text matches the grammar",
        Constraint("json_schema", '{"$ref": "#"}'): "Circular $ref",
        Constraint("json_schema", '{"type": "foo"}'): 'Unsupported type "foo"',
        Constraint("json_schema", "{"): "Failed to parse JSON",
        Constraint("regex", "(?=a)b"): "Lookahead is not supported",
        Constraint("regex", "a^b"): "can never match",
        Constraint("choice", "[]"): "nothing to choose from",
        Constraint("structural", '{"type": "structural_tag"}'): "structural tag",
    }
    async with house(starter_tokens) as grammars:
        for constraint, words in bad.items():
            outcome = await grammars.compile(constraint)
            assert isinstance(outcome, Refused), constraint
            assert words in outcome.reason
            assert "/project" not in outcome.reason
        assert grammars.children == 1


async def test_left_and_tree_recursion_compile(starter_tokens: Tokens) -> None:
    tree = {
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {"left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}},
            }
        },
        "$ref": "#/$defs/tree",
    }
    async with house(starter_tokens) as grammars:
        assert isinstance(await grammars.compile(Constraint("ebnf", 'root ::= root "a" | "b"')), Compiled)
        assert isinstance(await grammars.compile(Constraint("json_schema", json.dumps(tree))), Compiled)


@pytest.mark.usefixtures("trusted")
async def test_equal_constraints_compile_once_together_and_later(starter_tokens: Tokens) -> None:
    async with house(starter_tokens) as grammars:
        first, second = await asyncio.gather(grammars.compile(PERSON), grammars.compile(PERSON))
        later = await grammars.compile(Constraint("json_schema", PERSON.source, after="</think>"))
        assert isinstance(first, Compiled) and isinstance(second, Compiled) and isinstance(later, Compiled)
        assert first.grammar is second.grammar is later.grammar
        assert (first.after, later.after) == (None, "</think>")
        assert grammars.compiled == 1


@pytest.mark.usefixtures("trusted")
async def test_the_least_used_grammars_leave_when_the_cache_is_full(starter_tokens: Tokens) -> None:
    bound = 300_000
    async with house(starter_tokens, cache_bytes=bound) as grammars:
        one, two = Constraint("regex", "[a-m]+"), Constraint("regex", "[n-z]+")
        for constraint in (one, two, one):
            assert isinstance(await grammars.compile(constraint), Compiled)
            assert 0 < grammars.kept_bytes <= bound
        assert grammars.compiled == 2
        for index in range(40):
            await grammars.compile(one)
            await grammars.compile(Constraint("regex", f"[a-{chr(ord('b') + index % 20)}]{{{index % 8 + 1},}}"))
            assert grammars.kept_bytes <= bound
        assert grammars.compiled == 42
        await grammars.compile(two)
        assert grammars.compiled == 43


@pytest.mark.usefixtures("trusted")
async def test_what_is_larger_than_the_cache_is_served_and_not_kept(starter_tokens: Tokens) -> None:
    async with house(starter_tokens, cache_bytes=100) as grammars:
        assert isinstance(await grammars.compile(PERSON), Compiled)
        assert isinstance(await grammars.compile(PERSON), Compiled)
        assert (grammars.compiled, grammars.kept_bytes) == (2, 0)


@pytest.mark.usefixtures("trusted")
async def test_who_stops_waiting_does_not_stop_the_compiling(starter_tokens: Tokens) -> None:
    async with house(starter_tokens) as grammars:
        impatient = asyncio.ensure_future(grammars.compile(PERSON))
        patient = asyncio.ensure_future(grammars.compile(PERSON))
        await asyncio.sleep(0)
        impatient.cancel()
        assert isinstance(await patient, Compiled)
        assert impatient.cancelled()
        assert grammars.compiled == 1


async def test_a_constraint_over_its_time_is_refused_at_once_the_second_time(starter_tokens: Tokens) -> None:
    slow = Constraint("json_schema", nested(1000))
    async with house(starter_tokens, bounds=Bounds(seconds=0.5)) as grammars:
        first = await grammars.compile(slow)
        assert isinstance(first, Refused)
        assert "longer than 0.5 s" in first.reason
        assert await grammars.compile(slow) is first
        assert grammars.compiled == 1


@pytest.mark.usefixtures("trusted")
async def test_a_line_too_long_is_refused(starter_tokens: Tokens) -> None:
    grammars = GrammarHouse(starter_tokens, 1 << 20, BOUNDS, line=1)
    try:
        first = asyncio.ensure_future(grammars.compile(PERSON))
        await asyncio.sleep(0)
        assert await grammars.compile(Constraint("json")) == Refused("too many grammars wait to be compiled")
        assert isinstance(await first, Compiled)
    finally:
        await grammars.close()


async def test_a_child_that_died_is_replaced_and_nobody_notices(starter_tokens: Tokens) -> None:
    async with house(starter_tokens) as grammars:
        await grammars.warm()
        (child,) = [
            process for process in psutil.Process().children() if "grammar.child" in " ".join(process.cmdline())
        ]
        child.kill()
        assert isinstance(await grammars.compile(Constraint("regex", "[a-z]+")), Compiled)
        assert grammars.children == 2


async def test_a_modest_constraint_needs_no_child(starter_tokens: Tokens) -> None:
    async with house(starter_tokens) as grammars:
        assert isinstance(await grammars.compile(PERSON), Compiled)
        assert (grammars.children, grammars.compiled) == (0, 1)


async def test_the_child_ends_with_its_house(starter_tokens: Tokens) -> None:
    async with house(starter_tokens) as grammars:
        await grammars.warm()
        assert grammars.children == 1
    assert not [child for child in psutil.Process().children() if "grammar.child" in " ".join(child.cmdline())]


@pytest.mark.parametrize("pattern", ["(?=a)", "(?<!a)b", r"\bfoo"])
async def test_a_pattern_that_cannot_be_enforced_is_refused_within_a_schema_too(
    starter_tokens: Tokens, pattern: str
) -> None:
    schema = json.dumps({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}})
    tag = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": json.loads(schema)}}
    async with house(starter_tokens) as grammars:
        for constraint in (Constraint("json_schema", schema), Constraint("structural", json.dumps(tag))):
            assert isinstance(await grammars.compile(constraint), Refused)
