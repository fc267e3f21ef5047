"""The starter's vocabulary, and one compiler of it for all tests that do not need their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.generation.grammar import tokens
from actors.generation.grammar.compiler import Compiled
from actors.generation.grammar.constraint import Constraint
from actors.generation.grammar.recipe import build
from actors.generation.grammar.tokens import Tokens
from actors.models import starter


@pytest.fixture(scope="session")
def starter_tokens() -> Tokens:
    return tokens.load(starter.ensure(progress=False), 49152, [2])


@pytest.fixture(scope="session")
def compiled(starter_tokens: Tokens) -> Callable[[Constraint], Compiled]:
    """Compiles without the child."""
    from xgrammar import GrammarCompiler

    compiler = GrammarCompiler(starter_tokens.info, max_threads=1, cache_enabled=False)

    def compile(constraint: Constraint) -> Compiled:
        return Compiled(build(compiler, constraint), starter_tokens, constraint.after, constraint.opens, 0)

    return compile
