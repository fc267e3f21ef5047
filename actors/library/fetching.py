"""Program of the process that downloads one repository: the hub library's own download, and lines of JSON about it.

It holds nothing that matters: killed at any moment, the next one goes on with what is on disk. It ends when its input
does, so it never outlives the library that started it.

Its first line of input is a JSON object with the repository and the token; each line of output holds a `Progress`, or
`{"done": true}`, or `{"error": "…"}`, which is the last one.
"""

from __future__ import annotations

import fnmatch
import json
import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.library.leftovers import Leftovers, Provable
from actors.library.messages import Progress
from actors.models import hub
from actors.models.progress import reporting_bar

if TYPE_CHECKING:
    from huggingface_hub import RepoFile

NEWS_S = 0.5
"""Between two lines of progress."""


class NoModel(Exception):
    """The repository holds nothing that could be served."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is needed of a repository."""

    commit: str
    """Newest revision."""
    files: tuple[RepoFile, ...]
    """In the order of the listing."""


class Reporter:
    """Writes progress to standard output, from whatever thread."""

    def __init__(self, wanted: Wanted, snapshot: Path) -> None:
        self._wanted = wanted
        self._snapshot = snapshot
        self._before = sum(file.size for file in self._complete())
        self._received = 0
        self._carried = 0

    def received(self, done: int, total: int) -> None:
        """Byte counts of the download proper. Two bars count the same bytes; the one that is ahead counts."""
        self._received = max(self._received, done)

    def carried(self, done: int, total: int) -> None:
        """Byte counts of a part that is carried on; what it had counts as received."""
        self._carried = done

    def settle(self) -> None:
        """Parts have been carried on; from here on the download proper counts."""
        self._before = sum(file.size for file in self._complete()) + self._carried
        self._carried = 0

    def news(self) -> Progress:
        complete = {file.path for file in self._complete()}
        missing = [file for file in self._wanted.files if file.path not in complete]
        total = sum(file.size for file in self._wanted.files)
        largest = max(missing, key=lambda file: file.size, default=None)
        return Progress(
            received_bytes=min(total, self._before + self._carried + self._received),
            total_bytes=total,
            files_done=len(complete),
            files_total=len(self._wanted.files),
            current_file=largest.path if largest else None,
        )

    def _complete(self) -> list[RepoFile]:
        return [file for file in self._wanted.files if (self._snapshot / file.path).exists()]


def main() -> None:
    """Download what the first line of input names."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        fetch(order["repository"], order["token"])
    except NoModel as error:
        _say({"error": str(error)})
    except Exception as error:  # the hub's client fails in many ways; each has its sentence
        _say({"error": hub.sentence(order["repository"], error)})
    else:
        _say({"done": True})


def fetch(repository: str, token: str | None) -> None:
    """Download the files that a model needs. Raises whatever the hub library does, and `NoModel`."""
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.file_download import repo_folder_name
    from huggingface_hub.utils import build_hf_headers

    wanted = list_wanted(repository, token)
    cache, name = Path(constants.HF_HUB_CACHE), repo_folder_name(repo_id=repository, repo_type="model")
    reporter = Reporter(wanted, cache / name / "snapshots" / wanted.commit)
    stop = threading.Event()
    teller = threading.Thread(target=_tell, args=(reporter, stop), daemon=True)
    teller.start()
    try:
        carried: Any = reporting_bar(reporter.carried)
        headers = build_hf_headers(token=token)
        Leftovers(cache, name).carry_on(_provable(repository, wanted), headers, carried)
        reporter.settle()
        received: Any = reporting_bar(reporter.received)
        snapshot_download(repository, allow_patterns=list(hub.FILES), tqdm_class=received, token=token)
    finally:
        stop.set()
        teller.join()
    _say(asdict(reporter.news()))


def list_wanted(repository: str, token: str | None) -> Wanted:
    """Ask the hub what the newest revision holds. Raises what its client does, and `NoModel`."""
    from huggingface_hub import HfApi, RepoFile

    api = HfApi(token=token)
    commit = api.model_info(repository).sha or "main"
    listed = api.list_repo_tree(repository, recursive=True, revision=commit)
    files = tuple(file for file in listed if isinstance(file, RepoFile) and is_needed(file.path))
    names = {file.path for file in files}
    if "config.json" not in names or not any(fnmatch.fnmatch(name, "model*.safetensors") for name in names):
        raise NoModel(f"{repository} holds no model in safetensors (config.json and model*.safetensors)")
    return Wanted(commit, files)


def is_needed(path: str) -> bool:
    """Whether a model needs this file of its repository."""
    return any(fnmatch.fnmatch(path, pattern) for pattern in hub.FILES)


def _provable(repository: str, wanted: Wanted) -> Iterable[Provable]:
    from huggingface_hub import hf_hub_url

    for file in wanted.files:
        if file.lfs is not None and file.xet_hash is None:
            url = hf_hub_url(repository, file.path, revision=wanted.commit)
            yield Provable(file.path, url, file.lfs.sha256, file.lfs.size)


def _tell(reporter: Reporter, stop: threading.Event) -> None:
    while not stop.wait(NEWS_S):
        _say(asdict(reporter.news()))


def _say(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
