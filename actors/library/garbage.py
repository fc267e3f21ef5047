"""What of the hub's local cache is superseded, and its deletion. Blocks; scanning is the hub library's own.

A snapshot that a ref names is kept, and so is one that somebody uses. Any other is deleted, unless it holds files that
the kept ones lack: then only a person can tell what it is for. Without a single ref nothing of a repository is touched.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from actors.library.messages import Reclaimable, Reclaimed

if TYPE_CHECKING:
    from huggingface_hub import CachedRepoInfo, CachedRevisionInfo, DeleteCacheStrategy, HFCacheInfo

SETTLED_S = 600.0
"""Age of a file without a snapshot before it counts as forgotten: a download gives a file its snapshot last."""

_UNFINISHED = (".incomplete", ".lock")


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be deleted of one repository."""

    row: Reclaimable
    """In numbers."""
    strategy: DeleteCacheStrategy
    """As the hub library does it."""


def plan(hub_cache: Path, used: Collection[Path], busy: Collection[str]) -> tuple[Plan, ...]:
    """What could be deleted now, by repository.

    Args:
        hub_cache: the hub's cache folder; one that does not exist is empty.
        used: folders of snapshots that are being served.
        busy: repositories that are left alone, because they are being downloaded.
    """
    from huggingface_hub import scan_cache_dir

    if not hub_cache.is_dir():
        return ()
    found = scan_cache_dir(hub_cache)
    models = [repo for repo in found.repos if repo.repo_type == "model" and repo.repo_id not in busy]
    plans = (_plan(found, repo, used) for repo in sorted(models, key=lambda repo: repo.repo_id))
    return tuple(plan for plan in plans if plan is not None)


def execute(plans: Collection[Plan]) -> Reclaimed:
    """Delete what was planned. Counts what is really gone."""
    total = Reclaimed()
    for planned in plans:
        strategy = planned.strategy
        strategy.execute()
        gone = [path for path in strategy.snapshots if not path.exists()]
        blobs = [path for path in strategy.blobs if not path.is_symlink() and not path.exists()]
        whole = len(gone) == len(strategy.snapshots) and len(blobs) == len(strategy.blobs)
        total = Reclaimed(
            total.snapshots + len(gone),
            total.blobs + len(blobs),
            total.reclaimed_bytes + (planned.row.reclaim_bytes if whole else 0),
        )
    return total


def _plan(found: HFCacheInfo, repo: CachedRepoInfo, used: Collection[Path]) -> Plan | None:
    if not any(revision.refs for revision in repo.revisions):
        return None
    in_use = {path.resolve() for path in used}
    kept = [one for one in repo.revisions if one.refs or one.snapshot_path.resolve() in in_use]
    known = {name for revision in kept for name in _names(revision)}
    others = [revision for revision in repo.revisions if revision not in kept]
    doomed = [revision for revision in others if _names(revision) <= known]
    skipped = [revision for revision in others if revision not in doomed]
    # The library's own plan for this repository alone: another one may hold a revision of the same name.
    alone = replace(found, repos=frozenset({repo}))
    strategy = alone.delete_revisions(*(revision.commit_hash for revision in doomed))
    forgotten = frozenset(_forgotten(repo)) - strategy.blobs
    size = strategy.expected_freed_size + sum(path.lstat().st_size for path in forgotten)
    strategy = replace(strategy, blobs=strategy.blobs | forgotten, expected_freed_size=size)
    if not doomed and not skipped and not strategy.blobs:
        return None
    return Plan(Reclaimable(repo.repo_id, len(doomed), len(skipped), len(strategy.blobs), size), strategy)


def _names(revision: CachedRevisionInfo) -> set[Path]:
    return {file.file_path.relative_to(revision.snapshot_path) for file in revision.files}


def _forgotten(repo: CachedRepoInfo) -> Iterator[Path]:
    """Files that no snapshot at all shows, and that nobody has just written."""
    shown = {file.blob_path for revision in repo.revisions for file in revision.files}
    folder = repo.repo_path / "blobs"
    for path in folder.iterdir() if folder.is_dir() else ():
        if path in shown or path.suffix in _UNFINISHED or path.is_dir():
            continue
        if time.time() - path.lstat().st_mtime >= SETTLED_S:
            yield path
