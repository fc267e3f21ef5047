"""The engine on tiny checkpoints of every kind of cache."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model

from actors.generation.batch import DecodeBatch
from actors.generation.messages import Sampling
from actors.generation.row import Row
from tests.conftest import KINDS
from tests.support import checkpoints
from tests.support.engine import rig

Tiny = Callable[[str], Path]
LENGTHS = [5, 40, 12, 71, 3, 25, 33, 18]


def prompts(lengths: list[int] = LENGTHS) -> list[list[int]]:
    source = random.Random(11)
    return [[source.randrange(255) for _ in range(length)] for length in lengths]


def reference(path: Path, prompt: list[int], tokens: int) -> list[int]:
    """What mlx-lm itself generates for one request."""
    model, _ = load_model(path)
    steps = generate_step(mx.array(prompt), model, max_tokens=tokens)
    generated = [int(token) for token, _ in steps]
    return generated[: generated.index(256) + 1] if 256 in generated else generated


@pytest.mark.parametrize("kind", KINDS)
def test_a_lone_row_gets_what_mlx_lm_generates(tiny: Tiny, kind: str) -> None:
    with rig(tiny(kind)) as running:
        for prompt in prompts()[:3]:
            assert running.run(prompt) == reference(tiny(kind), prompt, 24)


def test_a_lone_prompt_and_its_first_token_are_one_pass(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    with rig(tiny("llama")) as running:
        kind, passes = type(running.engine._model), list[int]()
        whole = kind.__call__

        def counted(self: Any, inputs: mx.array, *args: Any, **named: Any) -> mx.array:
            passes.append(inputs.shape[1])
            return whole(self, inputs, *args, **named)

        monkeypatch.setattr(kind, "__call__", counted)
        long, short = running.run(prompts()[1], max_tokens=1), running.run(prompts()[0], max_tokens=3)
    assert (len(long), len(short)) == (1, 3)
    assert passes == [40, 5, 1, 1]


def _pass(gate: threading.Event) -> None:
    assert gate.wait(30)


def test_prompts_that_come_together_and_their_first_tokens_are_one_pass(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = prompts([9, 4, 12])
    with rig(tiny("llama")) as running:
        alone = [running.run(prompt, max_tokens=limit) for prompt, limit in zip(few, (3, 1, 2), strict=True)]
        kind, passes = type(running.engine._model), list[tuple[int, ...]]()
        whole = kind.__call__

        def counted(self: Any, inputs: mx.array, *args: Any, **named: Any) -> mx.array:
            passes.append(inputs.shape)
            return whole(self, inputs, *args, **named)

        monkeypatch.setattr(kind, "__call__", counted)
        gate = threading.Event()
        running.engine.inbox.put_errand(lambda: _pass(gate))
        together = [running.submit(prompt, limit) for prompt, limit in zip(few, (3, 1, 2), strict=True)]
        gate.set()
        running.wait(*together)
    assert [outcome.tokens for outcome in together] == alone
    assert passes[:2] == [(3, 12), (2, 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_gets_the_same_alone_and_in_company(tiny: Tiny, kind: str) -> None:
    with rig(tiny(kind), budget=48) as running:
        alone = [running.run(prompt) for prompt in prompts()]
        together = [running.submit(prompt) for prompt in prompts()]
        running.wait(*together)
    assert [outcome.tokens for outcome in together] == alone


@pytest.mark.parametrize("kind", KINDS)
def test_rows_join_and_leave_at_every_step(tiny: Tiny, kind: str) -> None:
    limits = [3, 31, 9, 17, 1, 24, 2, 12]
    with rig(tiny(kind), max_rows=3, budget=16) as running:
        alone = [running.run(prompt, max_tokens=limit) for prompt, limit in zip(prompts(), limits, strict=True)]
        mixed = [running.submit(prompt, limit) for prompt, limit in zip(prompts(), limits, strict=True)]
        running.wait(*mixed)
    assert [outcome.tokens for outcome in mixed] == alone


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_prefix_gives_the_same_answer_as_a_cold_start(tiny: Tiny, kind: str) -> None:
    first = prompts()[3]
    with rig(tiny(kind)) as running:
        answer = running.run(first)
        entry = max(running.prefixes, key=lambda prefix: len(prefix.tokens))
        longer = [*entry.tokens, 7, 8, 9]
        cold = running.run(longer)
        beside = running.submit(prompts()[1])
        warm = running.submit(longer, entry=entry, length=len(entry.tokens))
        running.wait(beside, warm)
    assert entry.tokens[: len(first)] == first
    assert entry.tokens[len(first) :] == answer[: len(entry.tokens) - len(first)]
    assert warm.tokens == cold
    assert warm.cached == len(entry.tokens)


@pytest.mark.parametrize("kind", ["llama", "moe"])
def test_a_prefix_of_full_attention_is_cut_anywhere(tiny: Tiny, kind: str) -> None:
    first = prompts()[3]
    with rig(tiny(kind)) as running:
        running.run(first)
        entry = running.prefixes[-1]
        assert entry.trimmable
        for length in (1, 17, len(first) - 1):
            branch = [*first[:length], 1, 2, 3]
            assert running.run(branch, entry=entry, length=length) == running.run(branch)


def test_many_turns_of_a_sliding_window_conversation_beside_others(tiny: Tiny) -> None:
    with rig(tiny("sliding")) as running:
        conversation = prompts()[0]
        for turn in range(4):
            entry = running.prefixes[-1] if turn else None
            cold = running.run(conversation, max_tokens=11)
            beside = [running.submit(prompt) for prompt in prompts()[:3]]
            warm = running.submit(conversation, 11, entry=entry, length=len(entry.tokens) if entry else 0)
            running.wait(warm, *beside)
            assert warm.tokens == cold
            mine = [p for p in running.prefixes if p.tokens[: len(conversation)] == conversation]
            running.prefixes.append(max(mine, key=lambda prefix: len(prefix.tokens)))
            conversation = [*running.prefixes[-1].tokens, 40 + turn, 41, 42]


def test_a_cancelled_row_ends_within_two_steps_in_every_phase(tiny: Tiny) -> None:
    with rig(tiny("llama"), max_rows=2, budget=16) as running:
        decoding = running.submit(prompts()[0], max_tokens=None)
        prefilling = running.submit([1] * 3000, max_tokens=None)
        waiting = running.submit(prompts()[2], max_tokens=None)
        running.wait_for_tokens(decoding, 5)
        running.cancel(waiting)
        running.wait(waiting)
        running.cancel(prefilling)
        running.wait(prefilling)
        steps = running.engine.tally.steps
        running.cancel(decoding)
        running.wait(decoding)
        assert running.engine.tally.steps - steps <= 2 + 2  # two may pass before the flag is seen
        assert waiting.tokens == prefilling.tokens == []
        assert running.engine.tally.cancelled == 3
        assert running.run(prompts()[1]), "the seats are free again"


def test_a_long_prompt_that_was_cancelled_keeps_what_was_computed(tiny: Tiny) -> None:
    with rig(tiny("llama"), budget=16) as running:
        beside = running.submit(prompts()[0], max_tokens=None)
        long = running.submit([1, 2, 3] * 600, max_tokens=4)
        running.wait_for_tokens(beside, 8)
        running.cancel(long)
        running.cancel(beside)
        running.wait(long, beside)
        kept = max(running.prefixes, key=lambda prefix: len(prefix.tokens))
    assert kept.tokens == ([1, 2, 3] * 600)[: len(kept.tokens)]
    assert len(kept.tokens) % 16 == 0


def test_running_rows_decode_while_a_long_prompt_arrives(tiny: Tiny) -> None:
    with rig(tiny("llama"), budget=16) as running:
        running_row = running.submit(prompts()[0], max_tokens=400)
        running.wait_for_tokens(running_row, 2)
        before = len(running_row.tokens)
        long = running.submit([5] * 16 * 50, max_tokens=1)
        running.wait(long)
        gained = len(running_row.tokens) - before
        running.cancel(running_row)
        running.wait(running_row)
    assert gained >= 45, "fifty chunks leave room for about fifty decode steps"


def test_a_row_whose_last_token_is_in_flight_when_a_newcomer_arrives_gets_its_end(tiny: Tiny) -> None:
    with rig(tiny("llama"), budget=16) as running:
        alone = running.run(prompts()[0], max_tokens=8)
        beside = running.submit(prompts()[1], max_tokens=60)
        running.wait_for_tokens(beside, 4)
        ending = running.submit(prompts()[0], max_tokens=8)
        newcomers = []

        def arrive() -> None:
            # Seven are read and the eighth is computed: the step that reads it also computes the newcomer's prompt.
            if len(ending.tokens) == 7 and not newcomers:
                newcomers.append(running.submit([9] * 160, max_tokens=1))

        running.after_post = arrive
        running.wait(ending, beside)
        running.wait(*newcomers)
        assert running.engine.tally.finished == 4
    assert len(newcomers) == 1
    assert (ending.tokens, ending.finish) == (alone, "length")


def test_one_message_a_step_carries_the_tokens_of_all_rows(tiny: Tiny) -> None:
    with rig(tiny("llama"), budget=256) as running:
        rows = [running.submit(prompt, max_tokens=12) for prompt in prompts()]
        running.wait(*rows)
        widest = max(len(events.deltas) for events in running.steps)
        numbers = [events.step for events in running.steps]
    assert widest == len(rows)
    assert numbers == sorted(set(numbers))


def test_a_row_that_makes_the_model_raise_fails_alone(tmp_path: Path) -> None:
    with rig(checkpoints.failing(tmp_path / "failing", token="!"), budget=256) as running:
        alone = [running.run(prompt) for prompt in ([65, 66, 67], [70, 71])]
        rows = [running.submit([65, 66, 67]), running.submit([65, ord("!"), 67]), running.submit([70, 71])]
        running.wait(*rows)
        assert rows[1].finish == "error"
        assert rows[1].failure is not None
        assert "this token is poison" in rows[1].failure.message
        assert [rows[0].tokens, rows[2].tokens] == alone
        assert running.run([65, 66, 67]) == alone[0]
        assert running.engine.tally.failed == 1


def test_a_row_that_fails_in_the_middle_of_decoding_leaves_its_neighbours_unharmed(tmp_path: Path) -> None:
    path = checkpoints.failing(tmp_path / "failing", token="!")
    neighbour = [65, 66, 67]
    with rig(path, budget=256) as running:
        alone = running.run(neighbour, max_tokens=60)
        beside = running.submit(neighbour, max_tokens=60)
        running.wait_for_tokens(beside, 10)
        # The last prompt token goes through the shared decode step: there the model raises.
        culprit = running.submit([70, ord("!")], max_tokens=60)
        running.wait(beside, culprit)
    assert culprit.finish == "error"
    assert beside.tokens == alone


def test_an_error_that_shows_only_when_a_row_leaves_costs_the_others_a_pause(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave = DecodeBatch.remove
    failures = []

    def fail_once(batch: DecodeBatch, gone: Sequence[Row]) -> None:
        leave(batch, gone)
        if len(batch) == 2 and not failures:
            failures.append(len(batch))
            raise RuntimeError("what was in flight failed")

    with rig(tiny("llama")) as running:
        alone = [running.run(prompt, max_tokens=30) for prompt in prompts()[:2]]
        monkeypatch.setattr(DecodeBatch, "remove", fail_once)
        ending = running.submit(prompts()[2], max_tokens=5)
        others = [running.submit(prompt, max_tokens=30) for prompt in prompts()[:2]]
        running.wait(ending, *others)
        assert (running.engine.tally.finished, running.engine.tally.failed) == (5, 0)
    assert failures == [2]
    assert [other.tokens for other in others] == alone
    assert ending.finish == "length"


def test_a_seeded_row_draws_the_same_alone_and_in_company(tiny: Tiny) -> None:
    sampling = Sampling(temperature=1.0, top_p=0.9, top_k=50, min_p=0.01, seed=1234)
    with rig(tiny("llama")) as running:
        alone = running.run(prompts()[0], sampling=sampling)
        again = running.run(prompts()[0], sampling=sampling)
        rows = [running.submit(prompt, sampling=Sampling(temperature=1.5, seed=5)) for prompt in prompts()[1:]]
        beside = running.submit(prompts()[0], sampling=sampling)
        running.wait(beside, *rows)
        other = running.run(prompts()[0], sampling=Sampling(temperature=1.0, seed=99))
    assert alone == again == beside.tokens
    assert other != alone


def test_finish_reasons_and_counts_are_exact(tiny: Tiny) -> None:
    with rig(tiny("llama")) as running:
        one = running.submit(prompts()[0], max_tokens=1)
        seven = running.submit(prompts()[0], max_tokens=7)
        running.wait(one, seven)
    assert (len(one.tokens), one.finish) == (1, "length")
    assert (len(seven.tokens), seven.finish) == (7, "length")
    assert one.cached == 0


def test_dropped_prefixes_free_their_bytes(tiny: Tiny) -> None:
    with rig(tiny("llama")) as running:
        running.run(prompts()[3])
        assert running.engine.shelf.size > 0
        for prefix in running.prefixes:
            running.engine.inbox.put_drop(prefix.entry)
        running.run(prompts()[0])
        entries = [prefix.entry for prefix in running.prefixes]
        cold = running.submit(prompts()[3], entry=running.prefixes[0], length=10)
        running.wait(cold)
    assert cold.cached == 0, "a prefix that is gone means a cold start, not a failure"
    assert len(set(entries)) == len(entries)
