"""The protocol of the library, whole: the models on this machine's disk, and the way to more of them.

    models(refresh)        -> tuple[LibraryEntry, ...]   what the hub's local cache holds
    fit(FitQuestion)       -> FitAnswer                  how the served model stands on this machine and on others
    note_rate(DecodeRate)  -> None                       a rate that was measured
    downloads()            -> tuple[Download, ...]
    download(repo_id)      -> Refusal | None             starts one; it goes on without the caller
    search(query)          -> Found
    plan_gc(paths)         -> tuple[Reclaimable, ...]    what could be deleted, `paths` being in use
    execute_gc(paths)      -> Reclaimed                  deletes exactly that
    has_token(), save_token(token), forget_token()       -> bool, Refusal | None, None
    statistics()           -> LibraryStatistics

Sizes are in bytes, times on the wire in seconds since the epoch. No message carries the token but `save_token`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from actors.models.fit import Fit
from actors.models.machine import Machine
from actors.models.sku import SkuFit


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something was not done, as an error that can be raised again."""

    error: str
    """Class name in actors/errors.py."""
    message: str
    """One sentence."""


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """One repository in the hub's local cache, by its newest usable snapshot."""

    repo_id: str
    """Such as `mlx-community/Qwen3-4B-4bit`."""
    path: Path
    """Folder of the snapshot."""
    model_type: str | None
    """From config.json; None when that cannot be read."""
    size_bytes: int
    """All of its safetensors files."""
    quant_bits: int | None
    """Bits of most quantized layers."""
    quant_group_size: int | None
    """Weights that share one scale."""
    tier: str | None
    """`targeted` when mlx-lm has a model of this very type, `generic` when it loads it as another type, None when it
    cannot load it."""
    servable: bool
    """Whether it could be served as it lies there: known type, whole weights, a tokenizer."""
    fit: Fit | None
    """At a context of 8192 tokens on this machine; None when the configuration does not say enough."""


@dataclass(frozen=True, slots=True)
class FitQuestion:
    """The served model. Comes from the card that the server was started with, never from a request."""

    path: Path
    """Its folder."""
    fingerprint: str
    """Names it for measured rates."""
    stored_bytes: int
    """Its weights on disk."""
    resident_bytes: int | None
    """Its weights in memory; None while it is not loaded."""
    value_bytes: float
    """Bytes of one number in its caches."""
    context_limit: int | None
    """Enforced cap; None when there is none."""


@dataclass(frozen=True, slots=True)
class DecodeRate:
    """Tokens a second that one request alone was answered with."""

    fingerprint: str
    """Of the model."""
    tokens_per_s: float
    """Measured between the first and the last token."""


@dataclass(frozen=True, slots=True)
class FitAnswer:
    """How the served model stands."""

    machine: Machine
    """This machine."""
    context: int
    """Tokens that it has room for here."""
    report: Fit
    """At that context."""
    typical_context: int
    """8192 tokens, or the room there is."""
    typical_decode_tps: float
    """Estimated rate at the typical context."""
    measured_decode_tps: float | None
    """Newest measured rate; None when there is none."""
    measured_at: float | None
    """When, in seconds since the epoch."""
    matrix_context: int
    """Context of the matrix."""
    matrix: tuple[SkuFit, ...]
    """Other machines."""
    full_layers: int
    """Layers that attend to everything."""
    sliding_layers: int
    """Layers that attend to a window."""
    recurrent_layers: int
    """Layers with a state of fixed size."""


@dataclass(frozen=True, slots=True)
class Download:
    """One download, running or ended."""

    repo_id: str
    """What."""
    state: str
    """`active`, `done` or `error`."""
    started_at: float
    """When it was asked for."""
    finished_at: float | None = None
    """When it ended."""
    current_file: str | None = None
    """The largest file that is not complete yet."""
    received_bytes: int = 0
    """On disk, what was there before included."""
    total_bytes: int = 0
    """Of all files that a model needs; 0 until the hub has listed them."""
    files_done: int = 0
    """Complete."""
    files_total: int = 0
    """Needed."""
    bytes_per_s: float = 0.0
    """Over the last five seconds."""
    error: str | None = None
    """Why it failed."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the process that downloads says of it, several times a second."""

    received_bytes: int
    """As in `Download`."""
    total_bytes: int
    """As in `Download`."""
    files_done: int
    """As in `Download`."""
    files_total: int
    """As in `Download`."""
    current_file: str | None
    """As in `Download`."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """One repository on the hub."""

    repo_id: str
    """Its id."""
    downloads: int
    """Counted by the hub."""
    likes: int
    """Counted by the hub."""


@dataclass(frozen=True, slots=True)
class Found:
    """Answer of the hub's search."""

    models: tuple[FoundModel, ...] = ()
    """Most downloaded first."""
    offline: str | None = None
    """Why the hub did not answer; None when it did."""


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """What could be deleted of one repository."""

    repo_id: str
    """Which."""
    prune_snapshots: int
    """Snapshots that no ref names and nobody uses."""
    skipped_snapshots: int
    """Snapshots that no ref names, kept because they hold files which the named ones lack."""
    dead_blobs: int
    """Files that no kept snapshot shows."""
    reclaim_bytes: int
    """Their size."""


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What was deleted."""

    snapshots: int = 0
    """Folders."""
    blobs: int = 0
    """Files."""
    reclaimed_bytes: int = 0
    """Their size."""


@dataclass(frozen=True, slots=True)
class LibraryStatistics:
    """State of the library."""

    entries: int = 0
    """Repositories at the last scan."""
    scans: int = 0
    """Since start."""
    scan_s: float = 0.0
    """Length of the last scan."""
    active_downloads: int = 0
    """Running now."""
    finished_downloads: int = 0
    """Complete since start."""
    failed_downloads: int = 0
    """Ended by an error since start."""
