"""benchmarks/prompts.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.prompts import Prompts
from tests.support.checkpoints import byte_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    byte_tokenizer().save_pretrained(str(tmp_path))
    return tmp_path


def test_no_prompt_comes_twice(folder: Path) -> None:
    first, second = Prompts(folder, 1), Prompts(folder, 2)
    texts = [prompts.short() for prompts in (first, second) for _ in range(50)]
    texts += [prompts.long(40) for prompts in (first, second) for _ in range(50)]
    assert len({text.split(":")[0].split(".")[0] for text in texts}) == 200


def test_the_same_seed_gives_the_same_prompts(folder: Path) -> None:
    assert [Prompts(folder, 3).long(60), Prompts(folder, 3).short()] == [
        Prompts(folder, 3).long(60),
        Prompts(folder, 3).short(),
    ]


def test_a_long_prompt_is_as_long_as_asked(folder: Path) -> None:
    prompts = Prompts(folder, 1)
    assert 1000 <= prompts.length(prompts.long(1000)) < 1060
