"""The library with the hub's own client, in processes of their own, against a hub on loopback."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from threading import Event

import psutil
import pytest
from huggingface_hub import constants

from actors.library import fetcher as fetcher_module
from actors.library.actor import Library
from actors.library.fetcher import Fetcher, FetchFailed
from actors.library.messages import DecodeRate, Download, FitAnswer, FitQuestion, Refusal
from actors.settings import LibrarySettings
from tests.actors.models.loopback_hub import COMMIT, GOOD_TOKEN, Hub, serving
from tests.support.hub_cache import HubCache
from tests.support.waiting import eventually

PATIENCE_S = 60.0
REPO = "acme/tiny"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubCache:
    """The hub's cache of this test, for this process and its children."""
    for name in [name for name in os.environ if name.startswith("HF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    # The client gives up at once where a person would wait.
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    return HubCache(tmp_path / "hub")


@pytest.fixture
def repositories(tmp_path: Path, tiny: Callable[[str], Path]) -> Path:
    """One repository, with files that nobody needs."""
    folder = tmp_path / "site" / "acme" / "tiny"
    folder.mkdir(parents=True)
    for path in tiny("llama").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "model.safetensors").write_bytes(weights(24 * 2**20))
    (folder / "code.py").write_text("raise SystemExit('never run')")
    (folder / "pytorch_model.bin").write_bytes(b"not wanted")
    return tmp_path / "site"


@pytest.fixture
def hold() -> Event:
    return Event()


@pytest.fixture
def hub(repositories: Path, cache: HubCache, hold: Event, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Weights stop half-way until `hold` is set."""
    with serving(repositories, hold=hold) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        monkeypatch.setattr(constants, "ENDPOINT", served.address)
        yield served


@pytest.fixture
async def library(cache: HubCache, tmp_path: Path) -> AsyncIterator[Library]:
    library = make(cache, tmp_path)
    await library.start()
    yield library
    await library.close()


def make(cache: HubCache, tmp_path: Path) -> Library:
    return Library(LibrarySettings(state_dir=str(tmp_path / "state")), hub_cache=cache.folder)


def weights(size: int) -> bytes:
    """A file of weights, long enough for the hub's client to take it in pieces (of ten million bytes)."""
    header = json.dumps({"t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + os.urandom(size)


async def until(library: Library, wanted: Callable[[Download], bool]) -> Download:
    """The newest download, once it is as wanted."""
    return await eventually(lambda: _newest(library, wanted))


async def _newest(library: Library, wanted: Callable[[Download], bool]) -> Download | None:
    newest = (await library.downloads())[0]
    return newest if wanted(newest) else None


def size_of(repositories: Path) -> int:
    needed = [path for path in (repositories / REPO).iterdir() if path.suffix not in (".py", ".bin")]
    return sum(path.stat().st_size for path in needed)


async def test_a_download_is_seen_on_its_way_and_ends_in_the_library(
    library: Library, hub: Hub, hold: Event, repositories: Path
) -> None:
    assert await library.models() == ()
    assert await library.download(REPO) is None
    total = size_of(repositories)
    half = await until(library, lambda download: download.received_bytes > 10_000_000)
    assert (half.state, half.total_bytes, half.current_file) == ("active", total, "model.safetensors")
    assert half.files_done == half.files_total - 1
    assert half.received_bytes < total
    refused = await library.download(REPO)
    assert refused == Refusal("Conflict", f"a download for {REPO} is already in progress")
    hold.set()
    ended = await until(library, lambda download: download.state != "active")
    assert (ended.state, ended.error, ended.received_bytes, ended.files_done) == ("done", None, total, half.files_total)
    (entry,) = await library.models()
    assert (entry.repo_id, entry.servable, entry.path.name) == (REPO, True, COMMIT)
    names = {path.name for path in entry.path.iterdir()}
    assert "config.json" in names
    assert not names & {"code.py", "pytorch_model.bin"}
    assert (await library.statistics()).finished_downloads == 1


async def test_a_library_that_was_killed_goes_on_where_it_was(
    library: Library, hub: Hub, hold: Event, cache: HubCache, tmp_path: Path
) -> None:
    await library.download(REPO)
    await until(library, lambda download: download.received_bytes > 10_000_000)
    (process,) = [child for child in psutil.Process().children() if "actors.library.fetching" in child.cmdline()]
    # What a kill leaves: a state file, a lock that the kernel frees, and a child whose input ends.
    for fetcher in library._fetchers.values():
        fetcher._stopped = True
        assert fetcher._process is not None
        assert fetcher._process.stdin is not None
        fetcher._process.stdin.close()
    await library.close()
    assert not process.is_running()
    (part,) = _parts(cache)
    had = part.stat().st_size
    assert had > 0
    hub.asked.clear()
    later = make(cache, tmp_path)
    await later.start()
    try:
        ended = await until(later, lambda download: download.state != "active")
    finally:
        await later.close()
    assert (ended.state, ended.error, ended.received_bytes) == ("done", None, ended.total_bytes)
    # The rest of the file was asked for, and nothing that was complete.
    fetched = [asked for asked in hub.asked if asked.startswith("GET /acme/")]
    assert fetched == [f"GET /{REPO}/resolve/{COMMIT}/model.safetensors bytes={had}-"]
    assert _parts(cache) == []


def _parts(cache: HubCache) -> list[Path]:
    return [path for path in cache.repository(REPO).glob("blobs/*.incomplete") if path.stat().st_size]


async def test_damaged_and_forgotten_parts_go(
    library: Library, hub: Hub, hold: Event, cache: HubCache, repositories: Path
) -> None:
    hold.set()
    content = (repositories / REPO / "model.safetensors").read_bytes()
    name = hashlib.sha256(content).hexdigest()
    cache.blob(REPO, b"\xff" * 1000, name=f"{name}.0badf00d.incomplete")
    cache.blob(REPO, b"x" * 10, name=f"{name}.incomplete")
    cache.blob(REPO, b"?", name=f"{'0' * 64}.12345678.incomplete")
    await library.download(REPO)
    ended = await until(library, lambda download: download.state != "active")
    assert (ended.state, ended.received_bytes) == ("done", ended.total_bytes)
    assert (cache.repository(REPO) / "blobs" / name).read_bytes() == content
    assert _parts(cache) == []


async def test_a_download_that_fails_says_why_and_may_be_tried_again(library: Library, hub: Hub, hold: Event) -> None:
    hold.set()
    await library.download("acme/missing")
    ended = await until(library, lambda download: download.state != "active")
    assert (ended.state, ended.error) == (
        "error",
        "the hub has no repository acme/missing (or it is private: log in with `hf auth login`)",
    )
    assert await library.download("acme/missing") is None
    await until(library, lambda download: download.state != "active")


async def test_a_repository_without_a_model_is_not_fetched(library: Library, hub: Hub, repositories: Path) -> None:
    (repositories / "acme" / "gguf").mkdir()
    (repositories / "acme" / "gguf" / "model.gguf").write_bytes(b"x")
    await library.download("acme/gguf")
    ended = await until(library, lambda download: download.state != "active")
    assert ended.error == "acme/gguf holds no model in safetensors (config.json and model*.safetensors)"
    assert not [asked for asked in hub.asked if asked.startswith("GET /acme/")]


async def test_a_process_that_dies_is_a_failed_download(library: Library, hub: Hub) -> None:
    await library.download(REPO)
    await until(library, lambda download: download.current_file == "model.safetensors")
    (process,) = [child for child in psutil.Process().children() if "actors.library.fetching" in child.cmdline()]
    process.send_signal(signal.SIGKILL)
    ended = await until(library, lambda download: download.state != "active")
    assert (ended.state, ended.error) == ("error", "the process that downloaded it died")


async def test_the_process_ends_with_the_library_that_started_it(hub: Hub, cache: HubCache) -> None:
    process = fetcher_module._launch()
    assert process.stdin is not None
    process.stdin.write(json.dumps({"repository": REPO, "token": None}) + "\n")
    process.stdin.close()
    assert await asyncio.to_thread(process.wait, PATIENCE_S) == 1
    assert process.stdout is not None
    process.stdout.close()


def test_a_fetcher_that_was_stopped_before_it_began_ends(cache: HubCache) -> None:
    fetcher = Fetcher(REPO, None)
    fetcher.stop()
    with pytest.raises(FetchFailed):
        fetcher.run(lambda news: None)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "tiny",
        "a/b/c",
        "../x",
        "a/..",
        "/etc/passwd",
        "a/b\n",
        "a--b/c",
        "~/x",
        "a/.b",
        "a\\b/c",
        "ä/b",
        "a/" + "b" * 97,
    ],
)
async def test_what_is_no_repository_is_refused(library: Library, wrong: str) -> None:
    refused = await library.download(wrong)
    assert refused is not None
    assert refused.error == "InvalidRequest"
    assert await library.downloads() == ()


async def test_a_saved_token_is_shown_to_the_hub_and_to_nobody_else(
    library: Library, hub: Hub, hold: Event, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hold.set()
    assert await library.has_token() is False
    assert await library.save_token(GOOD_TOKEN) is None
    assert await library.has_token() is True
    await library.download(REPO)
    await until(library, lambda download: download.state != "active")
    assert f"Bearer {GOOD_TOKEN}" in hub.tokens
    assert GOOD_TOKEN not in caplog.text
    assert GOOD_TOKEN not in (tmp_path / "state" / "downloads.json").read_text()
    assert await library.forget_token() is None
    assert await library.has_token() is False


async def test_a_token_that_the_hub_does_not_know_is_refused(library: Library, hub: Hub) -> None:
    assert await library.save_token("hf_wrong") == Refusal("InvalidRequest", "the hub does not accept this token")
    assert await library.has_token() is False


async def test_a_token_is_taken_on_trust_while_the_hub_is_away(library: Library) -> None:
    assert await library.save_token("hf_any") is None
    assert await library.has_token() is True


async def test_the_search_asks_for_mlx_and_lives_without_a_hub(library: Library, hub: Hub) -> None:
    found = await library.search("tin")
    assert [(model.repo_id, model.downloads, model.likes) for model in found.models] == [(REPO, 7, 3)]
    assert found.offline is None


async def test_a_hub_that_is_away_is_said_to_be(library: Library) -> None:
    found = await library.search("tin")
    assert found.models == ()
    assert (found.offline or "").startswith("the hub did not answer: ")


async def test_a_scan_answers_for_half_a_minute_unless_it_is_refreshed(
    library: Library, cache: HubCache, tiny: Callable[[str], Path]
) -> None:
    assert await library.models() == ()
    cache.checkpoint(REPO, tiny("llama"))
    assert await library.models() == ()
    assert [entry.repo_id for entry in await library.models(refresh=True)] == [REPO]
    assert (await library.statistics()).scans == 2


async def test_clearing_away_is_seen_at_once(library: Library, cache: HubCache, tiny: Callable[[str], Path]) -> None:
    cache.checkpoint(REPO, tiny("llama"), commit="a" * 40)
    cache.checkpoint(REPO, tiny("llama"), commit="b" * 40)
    served = cache.repository(REPO) / "snapshots" / ("a" * 40)
    assert await library.plan_gc((served,)) == ()
    (row,) = await library.plan_gc(())
    assert (row.repo_id, row.prune_snapshots, row.dead_blobs) == (REPO, 1, 0)
    assert (await library.execute_gc(())).snapshots == 1
    assert not served.exists()


async def test_a_measured_rate_goes_over_the_estimate_and_outlives_the_library(
    library: Library, cache: HubCache, tmp_path: Path, tiny: Callable[[str], Path]
) -> None:
    question = FitQuestion(tiny("hybrid"), "print", 1000, 2000, 4.0, context_limit=100)
    before = await library.fit(question)
    assert isinstance(before, FitAnswer)
    assert (before.context, before.typical_context, before.measured_decode_tps) == (100, 100, None)
    assert (before.report.weights, before.full_layers, before.recurrent_layers) == (2000, 1, 3)
    await library.note_rate(DecodeRate("print", 12.5))
    after = await library.fit(question)
    assert isinstance(after, FitAnswer)
    assert (after.measured_decode_tps, after.typical_decode_tps) == (12.5, before.typical_decode_tps)
    await library.close()
    later = make(cache, tmp_path)
    await later.start()
    answer = await later.fit(question)
    await later.close()
    assert isinstance(answer, FitAnswer)
    assert answer.measured_decode_tps == 12.5


async def test_a_model_that_cannot_be_read_has_no_fit(library: Library, tmp_path: Path) -> None:
    answer = await library.fit(FitQuestion(tmp_path / "nowhere", "print", 1, 1, 2.0, None))
    assert isinstance(answer, Refusal)


async def test_a_second_library_remembers_nothing_but_works(library: Library, cache: HubCache, tmp_path: Path) -> None:
    second = make(cache, tmp_path)
    await second.start()
    await second.note_rate(DecodeRate("print", 1.0))
    assert await second.models() == ()
    await second.close()
    assert not (tmp_path / "state" / "rates.json").exists()
