"""What a model whose caches cannot be cut anywhere computes anew in the turns of a conversation."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.generation import kv
from actors.generation.row import Row
from tests.support.engine import Outcome, Rig, StoredPrefix, rig

Tiny = Callable[[str], Path]
UNCUTTABLE = ["hybrid", "convolution", "mamba", "sliding"]


def words(length: int, seed: int) -> list[int]:
    source = random.Random(seed)
    return [source.randrange(255) for _ in range(length)]


def newest(running: Rig) -> StoredPrefix:
    return running.prefixes[-1]


def computed(running: Rig, prompt: list[int], **options: object) -> tuple[list[int], int]:
    """The answer, and the prompt tokens that were computed for it."""
    before = running.engine.tally.prompt_tokens
    tokens = running.run(prompt, **options)
    return tokens, running.engine.tally.prompt_tokens - before


@pytest.mark.parametrize("kind", UNCUTTABLE)
def test_a_finished_turn_can_be_cut_at_the_end_of_its_prompt(tiny: Tiny, kind: str) -> None:
    prompt = words(40, 1)
    with rig(tiny(kind)) as running:
        answer = running.run(prompt)
        entry = newest(running)
        assert entry.tokens == [*prompt, *answer][: len(entry.tokens)]
        assert entry.boundaries == (len(prompt) - 1,)
        assert not entry.trimmable
        for _ in range(2):
            assert computed(running, prompt, entry=entry, length=len(prompt) - 1) == (answer, 0)


@pytest.mark.parametrize("kind", UNCUTTABLE)
@pytest.mark.parametrize("budget", [16, 4096])
def test_a_turn_is_resumed_at_every_boundary_of_the_turns_before(tiny: Tiny, kind: str, budget: int) -> None:
    first, second = words(150, 1), words(120, 2)
    with rig(tiny(kind), budget=budget, boundary=64) as running:
        running.run(first, max_tokens=6, boundaries=(30, 140))
        turn1 = newest(running)
        assert turn1.boundaries == (30, 64, 140, 149)
        prompt = [*turn1.tokens, *second]
        running.run(prompt, max_tokens=6, entry=turn1, length=len(turn1.tokens), boundaries=(260,))
        turn2 = newest(running)
        assert turn2.boundaries == (30, 64, 140, 149, 155, 192, 260, 274)
        for length in turn2.boundaries:
            edited = [*prompt[:length], *words(20, length)]
            cold, everything = computed(running, edited)
            assert everything == len(edited) - 1
            assert computed(running, edited, entry=turn2, length=length) == (cold, 19)


@pytest.mark.parametrize("kind", UNCUTTABLE)
def test_resuming_at_a_boundary_changes_nothing_that_is_stored(tiny: Tiny, kind: str) -> None:
    with rig(tiny(kind)) as running:
        running.run(words(150, 1), boundaries=(100,))
        entry = newest(running)
        branches = [[*entry.tokens[:100], *words(30, seed)] for seed in range(5)]
        cold = [running.run(branch) for branch in branches]
        warm = [running.submit(branch, entry=entry, length=100) for branch in branches]
        running.wait(*warm)
        assert [outcome.tokens for outcome in warm] == cold
        assert [running.run(branch, entry=entry, length=100) for branch in branches] == cold


@pytest.mark.parametrize("kind", UNCUTTABLE)
def test_rows_go_on_decoding_while_a_prompt_stops_at_its_boundaries(tiny: Tiny, kind: str) -> None:
    with rig(tiny(kind), budget=32, boundary=48) as running:
        alone = running.run(words(20, 1), max_tokens=60)
        beside = running.submit(words(20, 1), max_tokens=60)
        running.wait_for_tokens(beside, 3)
        long = running.submit(words(400, 2), max_tokens=4, boundaries=(390,))
        running.wait(beside, long)
        assert beside.tokens == alone
        spoke = [{delta.request_id for delta in step.deltas} for step in running.steps]
        first = next(at for at, who in enumerate(spoke) if long.row.request.request_id in who)
        chunks = 400 // 48 * 2 + 2
        assert sum(beside.row.request.request_id in who for who in spoke[:first]) >= min(chunks, 60)


@pytest.mark.parametrize("kind", UNCUTTABLE)
def test_a_cancelled_prompt_is_resumed_where_it_was(tiny: Tiny, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = words(600, 1)
    with rig(tiny(kind), budget=16, boundary=100) as running:
        [leaving] = running.prepare(prompt, 4, None, None, 0, None, 1)

        def after_each_pass(tokens: int, seconds: float) -> None:
            leaving.row.cancelled = leaving.row.computed >= 300

        with monkeypatch.context() as patch:
            patch.setattr(running.engine.rate, "observe", after_each_pass)
            running.engine.inbox.put_row(leaving.row)
            running.wait(leaving)
        kept = newest(running)
        assert len(kept.tokens) == 300
        assert kept.boundaries == (100, 200)
        cold, _ = computed(running, prompt)
        rest = len(prompt) - 1 - len(kept.tokens)
        assert computed(running, prompt, entry=kept, length=len(kept.tokens)) == (cold, rest)


@pytest.mark.parametrize("kind", UNCUTTABLE)
def test_prompts_are_cut_where_earlier_ones_parted(tiny: Tiny, kind: str) -> None:
    shared = words(120, 1)
    with rig(tiny(kind)) as running:
        running.run([*shared, *words(50, 2)], branch=0)
        running.run([*shared, *words(50, 3)], branch=120)
        third = [*shared, *words(50, 4)]
        cold = running.run(third)
        entry = next(prefix for prefix in running.prefixes if 120 in prefix.boundaries)
        assert computed(running, third, entry=entry, length=120) == (cold, 49)


@pytest.mark.parametrize("kind", UNCUTTABLE)
def test_choices_hand_on_the_boundaries_of_their_prompt(tiny: Tiny, kind: str) -> None:
    prompt = words(150, 1)
    with rig(tiny(kind)) as running:
        outcomes: list[Outcome] = running.prepare(prompt, 8, None, None, 0, None, 3, (140,))
        for outcome in outcomes:
            running.engine.inbox.put_row(outcome.row)
        running.wait(*outcomes)
        assert [prefix.boundaries for prefix in running.prefixes] == [(140, 149)] * 3


@pytest.mark.parametrize("kind", UNCUTTABLE)
def test_short_prompts_share_a_pass_and_are_kept_at_their_ends(tiny: Tiny, kind: str) -> None:
    prompts = [words(length, length) for length in (40, 33, 25)]
    with rig(tiny(kind), budget=4096) as running:
        cold = [running.run(prompt) for prompt in prompts]
        running.prefixes.clear()
        together = [running.submit(prompt, boundaries=(20,)) for prompt in prompts]
        running.wait(*together)
        entries = {len(prefix.boundaries) and prefix.boundaries[0]: prefix for prefix in running.prefixes}
        for prompt, answer in zip(prompts, cold, strict=True):
            entry = entries[len(prompt) - 1]
            assert computed(running, prompt, entry=entry, length=len(prompt) - 1) == (answer, 0)


@pytest.mark.parametrize("kind", UNCUTTABLE)
def test_the_bytes_of_an_entry_are_those_of_what_it_holds(tiny: Tiny, kind: str) -> None:
    with rig(tiny(kind), boundary=64) as running:
        running.run(words(300, 1), max_tokens=30, boundaries=(290,))
        shelf = running.engine.shelf
        held = [shelf._stored[prefix.entry] for prefix in running.prefixes]
        for stored in held:
            kept = [cache for states in stored.states.values() for cache in states if cache is not None]
            arrays = [*kv.arrays(stored.caches), *kv.arrays(kept)]
            assert stored.size == sum(array.nbytes for array in arrays)
            for cache in kv.leaves([*stored.caches, *kept]):
                keys = getattr(cache, "keys", None)
                if keys is not None:
                    assert keys.shape[2] == min(cache.offset, getattr(cache, "max_size", cache.offset))
        assert shelf.size == sum(stored.size for stored in held)


def test_full_attention_keeps_no_states_and_makes_no_stops(tiny: Tiny) -> None:
    with rig(tiny("llama"), boundary=64) as running:
        running.run(words(300, 1), boundaries=(100,), branch=50)
        assert [prefix.boundaries for prefix in running.prefixes] == [()] * len(running.prefixes)
        assert all(prefix.trimmable for prefix in running.prefixes)


@pytest.mark.parametrize("kind", UNCUTTABLE)
def test_nothing_is_kept_when_the_cache_is_off(tiny: Tiny, kind: str) -> None:
    with rig(tiny(kind), store=None, boundary=64) as running:
        outcome = running.submit(words(300, 1), boundaries=(100,))
        running.wait(outcome)
        row: Row = outcome.row
        assert running.prefixes == []
        assert row.states == {}
