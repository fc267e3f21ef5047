"""Prefixes to the disk and back, by the scheduler, on tiny models of every kind of cache."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from actors.generation.messages import Sampling
from actors.spill.codec import encode, load
from actors.spill.files import Files
from actors.spill.record import Draft
from tests.conftest import KINDS
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually

Tiny = Callable[[str], Path]
PROMPT = [random.Random(5).randrange(255) for _ in range(90)]
NEXT = [7, 8, 9, 10, 11]


async def conversation(company: Stage) -> list[int]:
    """One turn; returns the whole history."""
    return [*PROMPT, *(await company.answer(PROMPT)).tokens]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_restart_costs_only_the_new_tokens_and_changes_no_answer(tiny: Tiny, tmp_path: Path, kind: str) -> None:
    async with stage(tiny(kind), tmp_path) as company:
        history = await conversation(company)
        warm = await company.answer([*history, *NEXT])
        assert warm.cached > 0
        flushed = await company.scheduler.flush(20)
        assert (flushed.attached, flushed.pending_snapshots, flushed.failed_spills) == (True, 0, 0)
    async with stage(tiny(kind), tmp_path) as company:
        again = await company.answer([*history, *NEXT])
        assert again.tokens == warm.tokens
        # At least as much as in RAM: the answer to this very prompt is known now.
        assert again.cached >= warm.cached
        figures = await company.spilling()
        assert (figures.restores, figures.restored_tokens) == (1, again.cached)
        assert figures.restore_ms_last > 0
        # From here on the RAM has it.
        assert (await company.answer([*history, *NEXT])).cached == again.cached
        assert (await company.spilling()).restores == 1


async def test_bf16_is_kept_bit_for_bit(tiny: Tiny, tmp_path: Path) -> None:
    settings = {"dtype": "bfloat16"}
    async with stage(tiny("llama"), tmp_path, generation=settings) as company:
        history = await conversation(company)
        warm = await company.answer([*history, *NEXT])
        await company.scheduler.flush(20)
        records = (tmp_path / "records").glob("*.kv")
        kinds = {part.dtype for path in records for part in load(path, company_model(company)).tensors.values()}
        assert kinds == {"bfloat16"}
    async with stage(tiny("llama"), tmp_path, generation=settings) as company:
        again = await company.answer([*history, *NEXT])
        assert (again.tokens, again.cached > 0) == (warm.tokens, True)


def company_model(company: Stage) -> str:
    return next(iter(company.writer._store.catalog)).model


async def test_another_type_of_weights_never_uses_the_records(tiny: Tiny, tmp_path: Path) -> None:
    async with stage(tiny("llama"), tmp_path) as company:
        await conversation(company)
        await company.scheduler.flush(20)
    async with stage(tiny("llama"), tmp_path, generation={"dtype": "bfloat16"}) as company:
        assert (await company.answer(PROMPT)).cached == 0
    async with stage(tiny("moe"), tmp_path) as company:
        assert (await company.answer(PROMPT)).cached == 0
    async with stage(tiny("llama"), tmp_path) as company:
        assert (await company.answer(PROMPT)).cached == len(PROMPT) - 1


async def test_a_turn_writes_its_new_tokens_only(tiny: Tiny, tmp_path: Path) -> None:
    async with stage(tiny("llama"), tmp_path) as company:
        history = await conversation(company)
        await company.durable()
        before = {path.name: path.stat().st_size for path in (tmp_path / "records").glob("*.kv")}
        written = (await company.writer.statistics()).written_records
        history = [*history, *NEXT, *(await company.answer([*history, *NEXT])).tokens]
        await company.durable()
        fresh = [path for path in (tmp_path / "records").glob("*.kv") if path.name not in before]
        records = [load(path, company_model(company)).record for path in fresh]
        # All but the last token of the old history was there, and the newest token is not computed yet.
        assert sum(record.stop - record.start for record in records) == len(history) - len(PROMPT) - 8
        assert (await company.writer.statistics()).written_records - written == len(fresh)


@pytest.mark.parametrize("kind", ["llama", "hybrid"])
async def test_the_ram_wins_unless_the_disk_has_more(tiny: Tiny, tmp_path: Path, kind: str) -> None:
    async with stage(tiny(kind), tmp_path) as company:
        history = await conversation(company)
        await company.durable()
        await company.answer([*history, *NEXT])
        assert (await company.spilling()).restores == 0


async def test_partitions_do_not_share_records(tiny: Tiny, tmp_path: Path) -> None:
    async with stage(tiny("llama"), tmp_path) as company:
        await company.answer(PROMPT, partition="tenant")
        await company.scheduler.flush(20)
    async with stage(tiny("llama"), tmp_path) as company:
        assert (await company.answer(PROMPT)).cached == 0
        assert (await company.answer(PROMPT, partition="other")).cached == 0
        assert (await company.answer(PROMPT, partition="tenant")).cached == len(PROMPT) - 1


def flip(path: Path) -> None:
    """One bit of an array."""
    content = bytearray(path.read_bytes())
    content[-100] ^= 4
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def lie(path: Path) -> None:
    """A whole and sound record of the same name, about other tokens."""
    model = _model_of(path)
    loaded = load(path, model)
    record = loaded.record
    draft = Draft(
        model, record.kind, record.start, record.stop, bytes(32), record.after, record.parent,
        bytes(len(record.tokens)), tuple(loaded.tensors.values()), loaded.extra,
    )  # fmt: skip
    path.write_bytes(b"".join(encode(draft)))


def thin_out(path: Path) -> None:
    """A whole and sound record that lacks an array."""
    model = _model_of(path)
    loaded = load(path, model)
    record = loaded.record
    draft = Draft(
        model, record.kind, record.start, record.stop, record.before, record.after, record.parent,
        record.tokens, tuple(loaded.tensors.values())[:-1], loaded.extra,
    )  # fmt: skip
    path.write_bytes(b"".join(encode(draft)))


def _model_of(path: Path) -> str:
    from actors.spill.codec import read_record

    return read_record(path).model


DAMAGES: list[Callable[[Path], None]] = [flip, cut, lie, thin_out, lambda path: path.unlink()]


@pytest.mark.parametrize("damage", DAMAGES, ids=["flipped", "cut", "other tokens", "fewer arrays", "gone"])
@pytest.mark.parametrize("kind", ["llama", "hybrid", "mamba", "sliding"])
async def test_damage_is_set_aside_and_the_answer_is_right(
    tiny: Tiny, tmp_path: Path, kind: str, damage: Callable[[Path], None]
) -> None:
    async with stage(tiny(kind), tmp_path) as company:
        history = await conversation(company)
        warm = await company.answer([*history, *NEXT])
        await company.scheduler.flush(20)
    async with stage(tiny(kind), tmp_path) as company:
        # Only now, so that the writer has taken stock already: what it finds at opening has tests of its own.
        for path in sorted((tmp_path / "records").glob("*.kv")):
            damage(path)
        again = await company.answer([*history, *NEXT])
        assert again.tokens == warm.tokens
        assert again.cached == 0
        flushed = await company.scheduler.flush(20)
        assert (flushed.pending_snapshots, flushed.missing_snapshots) == (0, 0)
    async with stage(tiny(kind), tmp_path) as company:
        again = await company.answer([*history, *NEXT])
        assert (again.tokens, again.cached > 0) == (warm.tokens, True)


async def test_damage_in_the_middle_leaves_what_is_before_it(tiny: Tiny, tmp_path: Path) -> None:
    async with stage(tiny("llama"), tmp_path) as company:
        await conversation(company)
        await company.scheduler.flush(20)
    async with stage(tiny("llama"), tmp_path) as company:
        middle = next(record for record in company.writer._store.catalog if record.start == 48)
        flip(company.writer._store.path(middle.name))
        assert (await company.answer(PROMPT)).cached == 48

        async def set_aside() -> bool:
            return (await company.writer.statistics()).set_aside == 1

        await eventually(set_aside)


class Sick(Files):
    """Fails with this errno while there is one."""

    number: int | None = None

    def write(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        if self.number is not None:
            raise OSError(self.number, os.strerror(self.number))
        super().write(path, pieces)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
async def test_a_disk_that_refuses_is_reported_and_requests_go_on(tiny: Tiny, tmp_path: Path, number: int) -> None:
    files = Sick()
    files.number = number
    async with stage(tiny("llama"), tmp_path, files) as company:
        history = await conversation(company)
        flushed = await company.scheduler.flush(20)
        assert flushed.failed_spills >= 1
        assert flushed.pending_snapshots >= 1
        assert flushed.pending_spill_bytes > 0
        assert (await company.writer.statistics()).problem is not None
        assert (await company.answer([*history, *NEXT])).cached > len(PROMPT)
        files.number = None
        flushed = await company.scheduler.flush(20)
        assert (flushed.pending_snapshots, flushed.failed_spills, flushed.missing_snapshots) == (0, 0, 0)
        assert flushed.flushed_snapshots >= 1
        assert (await company.writer.statistics()).problem is None
    async with stage(tiny("llama"), tmp_path) as company:
        assert (await company.answer([*history, *NEXT])).cached >= len(history)


async def test_what_the_ram_gives_up_stays_until_it_is_durable_within_a_bound(tiny: Tiny, tmp_path: Path) -> None:
    files = Sick()
    files.number = errno.ENOSPC
    # Each history takes about 50 kB; the RAM has room for one, the queue for one more.
    sizes = {"prompt_cache": {"max_bytes": 60_000}, "ssd_cache": {"queue_bytes": 60_000}}
    async with stage(tiny("llama"), tmp_path, files, **sizes) as company:
        prompts = [[number, *PROMPT[1:]] for number in range(4)]
        for prompt in prompts:
            await company.answer(prompt)

        async def settled() -> bool:
            figures = await company.spilling()
            return (figures.pending_snapshots, figures.dropped_spills, figures.missing_snapshots) == (2, 2, 2)

        await eventually(settled)
        files.number = None
        flushed = await company.scheduler.flush(20)
        assert (flushed.pending_snapshots, flushed.flushed_snapshots, flushed.missing_snapshots) == (0, 2, 2)
        # One of them is in RAM no more, and on the disk.
        assert (await company.answer(prompts[2])).cached == len(PROMPT) - 1
        assert (await company.spilling()).restores == 1
        # What was lost is computed again, and then it is missing no more.
        for prompt in prompts[:2]:
            assert (await company.answer(prompt)).cached == 0
        flushed = await company.scheduler.flush(20)
        assert (flushed.pending_snapshots, flushed.missing_snapshots) == (0, 0)


async def test_a_writer_that_died_gets_what_the_ram_still_holds(tiny: Tiny, tmp_path: Path) -> None:
    async with stage(tiny("llama"), tmp_path) as company:
        history = await conversation(company)
        await company.durable()
        for path in (tmp_path / "records").glob("*.kv"):
            path.unlink()
        await company.replace_writer()
        await company.answer([1, *PROMPT])
        flushed = await company.scheduler.flush(20)
        assert (flushed.pending_snapshots, flushed.missing_snapshots) == (0, 0)
    async with stage(tiny("llama"), tmp_path) as company:
        assert (await company.answer([*history, *NEXT])).cached == len(history) - 1


async def test_a_directory_in_use_costs_the_tier_and_nothing_else(tiny: Tiny, tmp_path: Path) -> None:
    async with stage(tiny("llama"), tmp_path) as first, stage(tiny("llama"), tmp_path) as second:
        await conversation(first)
        history = await conversation(second)
        assert (await second.answer([*history, *NEXT])).cached > 0
        flushed = await second.scheduler.flush(20)
        assert (flushed.attached, flushed.pending_snapshots) == (False, 0)
        figures = await second.writer.statistics()
        assert (figures.available, figures.problem) == (False, f"another server uses {tmp_path}")
        assert (await first.scheduler.flush(20)).attached


async def test_seeded_answers_are_the_same_from_the_disk(tiny: Tiny, tmp_path: Path) -> None:
    sampling = Sampling(temperature=0.9, top_p=0.9, seed=11)
    async with stage(tiny("llama"), tmp_path) as company:
        cold = await company.answer(PROMPT, 20, sampling)
        await company.scheduler.flush(20)
    async with stage(tiny("llama"), tmp_path) as company:
        again = await company.answer(PROMPT, 20, sampling)
        assert (again.tokens, again.cached) == (cold.tokens, len(PROMPT) - 1)


async def test_rows_that_come_together_share_one_reading(tiny: Tiny, tmp_path: Path) -> None:
    import asyncio

    async with stage(tiny("llama"), tmp_path) as company:
        history = await conversation(company)
        warm = [await company.answer([*history, number, 3, 4]) for number in range(4)]
        await company.scheduler.flush(20)
    async with stage(tiny("llama"), tmp_path) as company:
        again = await asyncio.gather(*(company.answer([*history, number, 3, 4]) for number in range(4)))
        assert [one.tokens for one in again] == [one.tokens for one in warm]
        assert all(one.cached >= len(history) - 1 for one in again)
