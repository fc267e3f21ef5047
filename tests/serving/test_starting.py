"""A start that fails ends with one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import checkpoints
from tests.support.server import run_server

FAILED = "Troupe cannot start:"


def truncated(folder: Path) -> Path:
    checkpoints.tiny_llama(folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    return folder


def misfit(folder: Path) -> Path:
    """Whole files, but the weights are of another shape than config.json says."""
    checkpoints.tiny_llama(folder)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"hidden_size": 64', '"hidden_size": 32'))
    return folder


@pytest.mark.parametrize("launcher", ["serve", "troupe"])
@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"generation": {"max_row": 8}}, "generation.max_row: unknown setting; allowed here: "),
        ({"generation": {"max_rows": "many"}}, "generation.max_rows: "),
        ({"model": "/no/such/folder"}, "there is no folder /no/such/folder"),
    ],
)
def test_a_wrong_configuration_ends_the_start(launcher: str, args: dict[str, Any], sentence: str) -> None:
    with run_server(args, launcher=launcher, expect_ready=False) as server:
        server.process.wait(180)
        said = [line for line in server.lines if FAILED in line or line.startswith("troupe: ")]
        assert len(said) == 1, server.log
        assert sentence in said[0]
        assert "Traceback" not in server.log


@pytest.mark.parametrize("breaking", [truncated, misfit])
def test_a_broken_model_ends_the_start(breaking: Any, tmp_path: Path) -> None:
    with run_server({"model": str(breaking(tmp_path / "broken"))}, expect_ready=False) as server:
        server.process.wait(180)
        said = [line for line in server.lines if FAILED in line]
        assert len(said) == 1, server.log
        assert "broken" in said[0]
        assert "Traceback" not in server.log
