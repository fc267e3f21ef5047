"""Answers that go on where a crash had cut them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.generation.checkpoints import key_of
from actors.generation.grammar.constraint import Constraint
from actors.generation.messages import Sampling, Submit
from actors.ids import IngressId, RequestId
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually

Tiny = Callable[[str], Path]
PROMPT = [random.Random(6).randrange(255) for _ in range(40)]
EVERY = 8
TOKENS = 300
SEEDED = Sampling(temperature=0.8, top_p=0.95, seed=5, presence_penalty=0.4, presence_window=0)


def checkpointed(model: Path, folder: Path) -> Any:
    return stage(model, folder, ssd_cache={"checkpoint_tokens": EVERY})


def notes(company: Stage) -> list[int]:
    """Tokens in each durable note."""
    return sorted(note.start for note in company.writer._store.catalog.notes())


def unending(sampling: Sampling) -> Sampling:
    """The end token never comes."""
    return replace(sampling, logit_bias=((256, -1e9),))


@pytest.mark.parametrize("sampling", [Sampling(), SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("kind", ["llama", "hybrid", "sliding", "mamba"])
async def test_an_identical_request_goes_on_after_a_crash_and_ends_as_if_nothing_had_been(
    tiny: Tiny, tmp_path: Path, kind: str, sampling: Sampling
) -> None:
    sampling = unending(sampling)
    async with stage(tiny(kind), tmp_path / "other") as company:
        whole = (await company.answer(PROMPT, TOKENS, sampling)).tokens
    async with checkpointed(tiny(kind), tmp_path / "cache") as company:
        assert await company.leave(PROMPT, TOKENS, sampling, after=20) == whole[:20]

        async def kept() -> bool:
            return bool(notes(company))

        await eventually(kept)
        await company.durable()
    # Looked at when nothing is under way any more: a newer note may have been written meanwhile.
    saved = notes(company)[-1]
    assert EVERY < saved < TOKENS
    async with checkpointed(tiny(kind), tmp_path / "cache") as company:
        again = await company.answer(PROMPT, TOKENS, sampling)
        assert again.tokens == whole
        # Never more than the prompt has, although the disk had more.
        assert again.cached == len(PROMPT)
        figures = await company.scheduler.statistics()
        assert figures.generated_tokens == TOKENS - saved

        async def removed() -> bool:
            return notes(company) == []

        await eventually(removed)
        assert (await company.answer(PROMPT, TOKENS, sampling)).tokens == whole
        assert (await company.scheduler.statistics()).generated_tokens == 2 * TOKENS - saved


async def test_the_newest_checkpoint_supersedes_and_a_cancelled_answer_keeps_it(tiny: Tiny, tmp_path: Path) -> None:
    async with checkpointed(tiny("llama"), tmp_path) as company:
        await company.leave(PROMPT, TOKENS, unending(Sampling()), after=40)
        await company.scheduler.flush(20)

        async def one() -> bool:
            return len(notes(company)) == 1

        await eventually(one)
        assert notes(company)[0] % EVERY == 1


async def test_without_the_option_nothing_unfinished_is_kept(tiny: Tiny, tmp_path: Path) -> None:
    async with stage(tiny("llama"), tmp_path) as company:
        await company.answer(PROMPT, TOKENS, unending(Sampling()))
        await company.scheduler.flush(20)
        assert notes(company) == []


def submit(**changes: Any) -> Submit:
    values: dict[str, Any] = {
        "request_id": RequestId("a"),
        "ingress": IngressId("b"),
        "prompt": b"\1\0\0\0",
        "max_tokens": 9,
        "sampling": Sampling(),
    }
    return Submit(**{**values, **changes})


def test_a_key_is_made_of_all_that_decides_an_answer_and_of_nothing_else() -> None:
    base = key_of("m", submit())
    same = [
        submit(request_id=RequestId("x"), ingress=IngressId("y"), session="s", traced=True),
        submit(sampling=Sampling(seed=4)),
    ]
    assert {key_of("m", request) for request in same} == {base}
    others = [
        submit(prompt=b"\2\0\0\0"),
        submit(max_tokens=10),
        submit(partition="tenant"),
        submit(sampling=Sampling(temperature=0.5)),
        submit(sampling=Sampling(temperature=0.5, seed=1)),
        submit(sampling=Sampling(logit_bias=((3, 1.0),))),
    ]
    keys = {key_of("m", request) for request in others} | {key_of("n", submit())}
    assert len(keys - {base}) == 7


def test_answers_that_cannot_be_resumed_have_no_key() -> None:
    grammar = Constraint("json")
    for request in (submit(choices=2), submit(top_logprobs=0), submit(constraint=grammar)):
        assert key_of("m", request) is None
