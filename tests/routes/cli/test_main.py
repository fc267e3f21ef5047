from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from actors.ray_environment import RAY_ENVIRONMENT
from routes.cli.main import main

Troupe = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def troupe() -> Troupe:
    """The installed command, in a process of its own."""
    command = Path(sys.executable).with_name("troupe")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([command, *arguments], text=True, capture_output=True, check=False)

    return run


@pytest.fixture
def config(tmp_path: Path) -> Callable[[object], str]:
    """Write a configuration with these args; gives its path."""

    def write(args: object) -> str:
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump({"applications": [{"import_path": "actors.app:build", "args": args}]}))
        return str(path)

    return write


def test_prepare_says_where_the_model_is(
    troupe: Troupe, config: Callable[[object], str], tiny: Callable[[str], Path]
) -> None:
    done = troupe("prepare", config({"model": str(tiny("llama"))}))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"{tiny('llama').name} is ready in {tiny('llama')}\n"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"modle": "starter"}, "troupe: modle: unknown setting; allowed here: "),
        ({"server": {"port": "many"}}, "troupe: server.port: "),
        ({"model": "/no/such/folder"}, "troupe: there is no folder /no/such/folder"),
        ({"model": "startr"}, "troupe: 'startr' is neither `starter`, nor a folder, "),
    ],
)
def test_a_broken_configuration_is_one_line_and_status_1(
    troupe: Troupe, config: Callable[[object], str], args: object, sentence: str
) -> None:
    done = troupe("prepare", config(args))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1


def test_every_fault_of_a_configuration_has_a_line(
    config: Callable[[object], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prepare", config({"server": {"port": 0}, "extra": 1})]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[:2] for line in lines] == [["troupe", " server.port"], ["troupe", " extra"]]


@pytest.mark.parametrize("command", ["prepare", "serve"])
def test_a_missing_file_is_one_line_and_status_1(troupe: Troupe, command: str, tmp_path: Path) -> None:
    done = troupe(command, str(tmp_path / "none.yaml"))
    assert done.returncode == 1
    assert done.stderr == f"troupe: cannot read {tmp_path / 'none.yaml'}: No such file or directory\n"


def test_the_model_of_the_command_line_goes_over_the_configurations(
    troupe: Troupe, config: Callable[[object], str]
) -> None:
    done = troupe("serve", config({"model": "starter"}), "--model", "/no/such/folder")
    assert (done.returncode, done.stderr) == (1, "troupe: there is no folder /no/such/folder\n")
    assert troupe("serve", config({"model": "starter"}), "--model", "").stderr.startswith("troupe: model: ")


def test_an_unknown_command_shows_the_usage(troupe: Troupe) -> None:
    done = troupe("perform")
    assert done.returncode == 2
    assert done.stderr.startswith("usage: troupe")
    assert troupe().returncode == 2


def test_the_environment_is_what_env_takes(troupe: Troupe) -> None:
    words = troupe("environment").stdout.split()
    assert dict(word.split("=", 1) for word in words) == RAY_ENVIRONMENT
    done = subprocess.run(
        ["env", *words, "sh", "-c", "echo $RAY_USAGE_STATS_ENABLED"], text=True, capture_output=True, check=True
    )
    assert done.stdout == "0\n"


def test_checking_a_configuration_loads_neither_ray_nor_mlx(
    config: Callable[[object], str], tiny: Callable[[str], Path]
) -> None:
    script = (
        "import sys; from routes.cli.main import main; status = main(sys.argv[1:]);"
        "print(status, {name.split('.')[0] for name in sys.modules} & {'mlx', 'ray', 'torch', 'transformers'})"
    )
    arguments = [sys.executable, "-c", script, "prepare", config({"model": str(tiny("llama"))})]
    done = subprocess.run(arguments, text=True, capture_output=True, check=True, env=os.environ.copy())
    assert done.stdout == "0 set()\n"
