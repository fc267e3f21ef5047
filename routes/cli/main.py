"""The command line: `troupe prepare`, `serve`, `transcribe`, `environment` and `reference`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from actors import settings as configuration
from actors.errors import StartError
from actors.ray_environment import RAY_ENVIRONMENT
from routes.cli import reference
from routes.cli import transcribe as speech


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0, or 1 after one sentence on stderr."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    # A request a line is hub chatter, not progress.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        return options.run(options)
    except StartError as error:
        for line in error.message.splitlines():
            print(f"troupe: {line}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="troupe", description="A local inference server on MLX and Ray Serve.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    prepare = commands.add_parser("prepare", help="check a configuration and fetch its model")
    prepare.add_argument("config", type=Path, help="such as configs/local.yaml")
    prepare.set_defaults(run=_prepare)
    serve = commands.add_parser("serve", help="serve a configuration; SIGTERM and SIGINT drain before they stop")
    serve.add_argument(
        "config", type=Path, nargs="?", default=Path("configs/local.yaml"), help="configs/local.yaml unless given"
    )
    serve.add_argument("--model", help="serve this model instead of the one that the configuration names")
    serve.set_defaults(run=_serve)
    transcribe = commands.add_parser("transcribe", help="write down what is said in audio files, without a server")
    speech.add_arguments(transcribe)
    transcribe.set_defaults(run=speech.run)
    environment = commands.add_parser("environment", help="print the environment Ray should start in, for `env`")
    environment.set_defaults(run=_environment)
    settings = commands.add_parser("reference", help="print the reference of all settings as Markdown")
    settings.set_defaults(run=_reference)
    return parser


def _prepare(options: argparse.Namespace) -> int:
    from actors.models.lineup import line_up

    settings = configuration.read(options.config)
    lineup = line_up(settings, progress=True)
    cards = [lineup.served] + ([lineup.embedding.model] if lineup.embedding and lineup.generates else [])
    for card in cards:
        print(f"{card.model_id} is ready in {card.path}", file=sys.stderr)
    return 0


def _serve(options: argparse.Namespace) -> int:
    from routes.cli.serve import serve

    return serve(options.config, options.model)


def _environment(options: argparse.Namespace) -> int:
    print(" ".join(f"{name}={value}" for name, value in RAY_ENVIRONMENT.items()))
    return 0


def _reference(options: argparse.Namespace) -> int:
    print(reference.markdown(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
