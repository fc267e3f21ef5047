from __future__ import annotations

from pathlib import Path

import pytest

from actors.library.garbage import SETTLED_S, execute, plan
from actors.library.messages import Reclaimable, Reclaimed
from tests.support.hub_cache import HubCache


@pytest.fixture
def cache(tmp_path: Path) -> HubCache:
    return HubCache(tmp_path / "hub")


def rows(cache: HubCache, used: tuple[Path, ...] = (), busy: tuple[str, ...] = ()) -> list[Reclaimable]:
    return [one.row for one in plan(cache.folder, used, busy)]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_superseded_snapshot_goes_with_the_files_that_only_it_had(cache: HubCache) -> None:
    cache.snapshot("acme/a", "old", {"config.json": b"same", "model.safetensors": b"1234567"})
    cache.snapshot("acme/a", "new", {"config.json": b"same", "model.safetensors": b"new weights"}, "main")
    assert rows(cache) == [Reclaimable("acme/a", 1, 0, 1, 7)]
    assert execute(plan(cache.folder, (), ())) == Reclaimed(1, 1, 7)
    assert names(cache.repository("acme/a") / "snapshots") == {"new"}
    left = cache.repository("acme/a") / "snapshots" / "new"
    assert {path.name: path.read_bytes() for path in left.iterdir()} == {
        "config.json": b"same",
        "model.safetensors": b"new weights",
    }
    assert rows(cache) == []


def test_a_snapshot_with_files_of_its_own_is_skipped_with_all_its_files(cache: HubCache) -> None:
    cache.snapshot("acme/a", "old", {"model.safetensors": b"1", "adapters.safetensors": b"2"})
    cache.snapshot("acme/a", "new", {"model.safetensors": b"3"}, "main")
    assert rows(cache) == [Reclaimable("acme/a", 0, 1, 0, 0)]
    assert execute(plan(cache.folder, (), ())) == Reclaimed()
    assert len(names(cache.repository("acme/a") / "blobs")) == 3


def test_files_in_folders_are_told_apart_by_their_whole_name(cache: HubCache) -> None:
    cache.snapshot("acme/a", "old", {"other/config.json": b"1"})
    cache.snapshot("acme/a", "new", {"config.json": b"3"}, "main")
    assert rows(cache) == [Reclaimable("acme/a", 0, 1, 0, 0)]


def test_every_named_snapshot_is_kept(cache: HubCache) -> None:
    cache.snapshot("acme/a", "1", {"config.json": b"1"}, "v1.0")
    cache.snapshot("acme/a", "2", {"config.json": b"2"}, "refs/pr/7")
    cache.snapshot("acme/a", "3", {"config.json": b"3"}, "main")
    assert rows(cache) == []


def test_without_a_ref_nothing_is_touched(cache: HubCache) -> None:
    cache.snapshot("acme/a", "1", {"config.json": b"1"})
    cache.snapshot("acme/b", "1", {"config.json": b"1"})
    cache.snapshot("acme/b", "gone", {}, "main")  # the ref names what is not there
    cache.blob("acme/a", b"forgotten")
    assert rows(cache) == []


def test_forgotten_files_go_and_those_in_the_making_stay(cache: HubCache) -> None:
    cache.snapshot("acme/a", "1", {"config.json": b"1"}, "main")
    cache.blob("acme/a", b"forgotten")
    cache.blob("acme/a", b"just come", age_s=SETTLED_S / 2)
    cache.blob("acme/a", b"part", name="abc.12345678.incomplete")
    cache.blob("acme/a", b"", name="abc.lock")
    assert rows(cache) == [Reclaimable("acme/a", 0, 0, 1, len(b"forgotten"))]
    assert execute(plan(cache.folder, (), ())) == Reclaimed(0, 1, 9)
    assert len(names(cache.repository("acme/a") / "blobs")) == 4


def test_what_is_served_is_never_superseded(cache: HubCache) -> None:
    served = cache.snapshot("acme/a", "old", {"config.json": b"1"})
    cache.snapshot("acme/a", "new", {"config.json": b"2"}, "main")
    assert rows(cache, used=(served,)) == []
    assert len(rows(cache)) == 1


def test_what_is_downloaded_is_left_alone(cache: HubCache) -> None:
    for repo in ("acme/a", "acme/b"):
        cache.snapshot(repo, "old", {"config.json": b"1"})
        cache.snapshot(repo, "new", {"config.json": b"2"}, "main")
    assert [row.repo_id for row in rows(cache, busy=("acme/a",))] == ["acme/b"]


def test_a_revision_of_the_same_name_elsewhere_is_another_one(cache: HubCache) -> None:
    cache.snapshot("acme/a", "same", {"config.json": b"1"}, "main")
    cache.snapshot("acme/b", "same", {"config.json": b"1"})
    cache.snapshot("acme/b", "new", {"config.json": b"2"}, "main")
    execute(plan(cache.folder, (), ()))
    assert (cache.repository("acme/a") / "snapshots" / "same").is_dir()
    assert not (cache.repository("acme/b") / "snapshots" / "same").exists()


def test_what_cannot_be_deleted_is_not_counted(cache: HubCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.snapshot("acme/a", "old", {"config.json": b"1"})
    cache.snapshot("acme/a", "new", {"config.json": b"2"}, "main")
    plans = plan(cache.folder, (), ())
    monkeypatch.setattr("shutil.rmtree", lambda *arguments, **options: None)
    done = execute(plans)
    assert (done.snapshots, done.blobs, done.reclaimed_bytes) == (0, 1, 0)


def test_data_sets_are_none_of_our_business(cache: HubCache, tmp_path: Path) -> None:
    cache.snapshot("acme/a", "old", {"config.json": b"1"})
    cache.snapshot("acme/a", "new", {"config.json": b"2"}, "main")
    cache.repository("acme/a").rename(cache.folder / "datasets--acme--a")
    assert rows(cache) == []


def test_no_cache_holds_no_garbage(tmp_path: Path) -> None:
    assert plan(tmp_path / "nowhere", (), ()) == ()
