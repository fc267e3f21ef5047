"""The hub's own client against a hub on loopback, each time in a process of its own: the client reads its
environment when it is imported."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.errors import StartError
from actors.models import hub
from tests.actors.models.loopback_hub import serving

CALL = """
import logging, sys
from actors.errors import StartError
from actors.models.resolve import prepare
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
try:
    card = prepare(sys.argv[1], progress=True, trust_model_code=sys.argv[2] == "trusted")
except StartError as error:
    sys.exit(f"StartError: {error.message}")
print(card.model_id, card.path, "mlx" in {name.partition(".")[0] for name in sys.modules})
"""

Prepare = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """Prepare a model with a cache of this test's own."""

    def run(model: str, address: str, *, trust: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        environment |= {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_TELEMETRY": "1"}
        command = [sys.executable, "-c", CALL, model, "trusted" if trust else "untrusted"]
        return subprocess.run(command, env=environment | more, text=True, capture_output=True, check=False)

    return run


@pytest.fixture
def repositories(tmp_path: Path, tiny: Callable[[str], Path]) -> Path:
    """One repository, with files that nobody needs."""
    folder = tmp_path / "hub" / "acme" / "tiny"
    folder.mkdir(parents=True)
    for path in tiny("llama").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "code.py").write_text("raise SystemExit('never run')")
    (folder / "picture.png").write_bytes(b"not wanted")
    return tmp_path / "hub"


def test_a_repository_is_fetched_without_its_code_and_without_mlx(prepare: Prepare, repositories: Path) -> None:
    with serving(repositories) as served:
        done = prepare("acme/tiny", served.address)
    assert done.returncode == 0, done.stderr
    model_id, path, mlx_loaded = done.stdout.split()
    assert (model_id, mlx_loaded) == ("acme/tiny", "False")
    names = {file.name for file in Path(path).iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not names & {"code.py", "picture.png"}


def test_code_is_fetched_when_it_is_trusted(prepare: Prepare, repositories: Path) -> None:
    with serving(repositories) as served:
        done = prepare("acme/tiny", served.address, trust=True)
    assert done.returncode == 0, done.stderr
    assert (Path(done.stdout.split()[1]) / "code.py").is_file()


def test_what_is_there_already_is_not_fetched_again(prepare: Prepare, repositories: Path) -> None:
    with serving(repositories) as served:
        assert prepare("acme/tiny", served.address).returncode == 0
        first = [asked for asked in served.asked if asked.startswith("GET /acme/")]
        served.asked.clear()
        assert prepare("acme/tiny", served.address).returncode == 0
        assert first
        assert not [asked for asked in served.asked if asked.startswith("GET /acme/")]


def test_a_fetched_repository_serves_while_the_hub_is_away(prepare: Prepare, repositories: Path) -> None:
    with serving(repositories) as served:
        online = prepare("acme/tiny", served.address)
    away = prepare("acme/tiny", served.address)
    assert away.returncode == 0, away.stderr
    assert away.stdout == online.stdout
    assert prepare("acme/tiny", served.address, HF_HUB_OFFLINE="1").stdout == online.stdout


def test_each_failure_is_one_sentence(prepare: Prepare, repositories: Path) -> None:
    with serving(repositories, gated={"acme/gated"}, broken={"acme/broken"}) as served:
        expected = {
            "acme/missing": "the hub has no repository acme/missing (or it is private: log in with `hf auth login`)",
            "acme/gated": "acme/gated is gated: accept its terms on its page, then log in with `hf auth login`",
            "acme/broken": "the hub answered 500 for acme/broken, which is not in the local cache",
            "not a name/x": "'not a name/x' is neither `starter`, nor a folder, nor the id of a repository such as "
            "`owner/name`",
        }
        for model, sentence in expected.items():
            done = prepare(model, served.address)
            assert done.returncode == 1
            assert done.stderr.splitlines()[-1] == f"StartError: {sentence}"
            assert "Traceback" not in done.stderr
    away = prepare("acme/tiny", served.address)
    assert away.stderr.splitlines()[-1] == (
        "StartError: the hub cannot be reached, and acme/tiny is not in the local cache"
    )


def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("huggingface_hub.snapshot_download", full)
    with pytest.raises(StartError, match=r"^the disk is full: acme/tiny does not fit into the local cache$"):
        hub.fetch("acme/tiny", progress=False)


def test_a_cache_that_cannot_be_written_is_one_sentence(prepare: Prepare, repositories: Path, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where a folder should be")
    with serving(repositories) as served:
        done = prepare("acme/tiny", served.address)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("StartError: cannot fetch acme/tiny: ")
