"""The protocol of the generation scheduler, whole.

    describe()             -> Description      what is served, and where its mailbox is
    compile(Constraint)    -> str|None         why a constraint cannot be enforced; None when it can
    submit(Submit)         -> Accepted|Failure a row joins the waiting line, or why it may not
    statistics()           -> SchedulerStatistics
    flush(seconds)         -> Flushed          make every stored prefix durable, or say why not
    drain()                -> None             refuse new rows, return when the last one has ended

Deltas do not travel as actor calls (2 ms of Python a message on both sides, measured in docs/architecture.md):
each ingress replica keeps one stream socket open to the scheduler's mailbox, says `Hello`, and reads one
`StepEvents` a step with everything that happened to its rows. `Cancel` goes the other way on it. A socket that
closes tells either side at once that the other one is gone: the scheduler then cancels the rows, the ingress ends
their streams.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.generation.grammar.constraint import Constraint
from actors.ids import Incarnation, IngressId, RequestId
from actors.prompt_cache.messages import TokenBytes


@dataclass(frozen=True, slots=True)
class ToneCurve:
    """Replaces the temperature's straight line over log-probabilities by a curve with a soft shoulder and toe (HLG).

    Everything is in nats, counted from the pivot: the best log-probability less `pivot_offset`.
    """

    width: float
    """Half-width of the straight middle."""
    shoulder: float
    """Softness above it."""
    toe: float
    """Softness below it."""
    pivot_offset: float
    """How far the pivot lies below the best token."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a row picks its tokens."""

    temperature: float = 0.0
    """0 is greedy."""
    top_p: float = 0.0
    """Nucleus mass in (0, 1); 0 and 1 are off."""
    top_k: int = 0
    """Tokens kept; 0 is off."""
    min_p: float = 0.0
    """Least probability relative to the likeliest token's; 0 is off."""
    seed: int = 0
    """64-bit seed of the row's own random stream; position and seed alone decide each draw."""
    xtc_probability: float = 0.0
    """Chance per draw of excluding the top choices; 0 is off."""
    xtc_threshold: float = 0.1
    """Probability above which all tokens but the least likely one are excluded, in [0, 0.5]."""
    xtc_exempt: tuple[int, ...] = ()
    """Tokens that are never excluded so."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Token ids within the vocabulary and what is added to their logits."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens in the window; 1 is off."""
    repetition_window: int = 20
    """Last tokens looked at, prompt included; 0 is all of them."""
    presence_penalty: float = 0.0
    """Subtracted once from tokens in the window; 0 is off."""
    presence_window: int = 20
    """Last tokens looked at; 0 is all of them."""
    frequency_penalty: float = 0.0
    """Subtracted from tokens in the window for every time they occur; 0 is off."""
    frequency_window: int = 20
    """Last tokens looked at; 0 is all of them."""
    tone: ToneCurve | None = None
    """Tone curve in the place of the plain temperature."""


@dataclass(frozen=True, slots=True)
class Submit:
    """One row."""

    request_id: RequestId
    """Name of the row, unique."""
    ingress: IngressId
    """Whose mailbox gets its events; must have said Hello."""
    prompt: TokenBytes
    """Prompt token ids, at least one, all within the vocabulary."""
    max_tokens: int | None
    """Tokens to generate at most; None generates until an end token."""
    sampling: Sampling
    """How to pick tokens."""
    session: str | None = None
    """Session affinity for the prompt cache."""
    partition: str = ""
    """What divides the prompt cache, see `prompt_cache/partition.py`."""
    boundaries: tuple[int, ...] = ()
    """Lengths, ascending, up to which later prompts of the conversation will have the same tokens whatever the answer:
    there, state is kept of models whose caches cannot be cut anywhere."""
    top_logprobs: int | None = None
    """Likeliest tokens to report with each token; 0 reports only its own log-probability, None nothing."""
    constraint: Constraint | None = None
    """What the answer must look like."""
    traced: bool = False
    """Whether to note when each phase took place."""
    coming: int = 0
    """Requests that the same ingress replica prepares at this moment, and will submit soon."""
    choices: int = 1
    """Answers wanted: rows over one computation of the prompt. Choice i has the name `choice_id(request_id, i)` and the
    seed `seed + i`."""


def choice_id(request_id: RequestId, index: int) -> RequestId:
    """Name of one of a request's rows."""
    return request_id if index == 0 else RequestId(f"{request_id}#{index}")


@dataclass(frozen=True, slots=True)
class Accepted:
    """The row waits for its turn."""

    request_id: RequestId
    """Which."""
    waiting: int
    """Rows in line before it."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a row. Unknown and finished rows are ignored; may be repeated."""

    request_id: RequestId
    """Which."""
    reason: str
    """For the log: `disconnect`, `stop`, `shutdown`."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a row ended in an error; rebuilt by `errors.by_name`."""

    error: str
    """Class name in actors/errors.py."""
    message: str
    """What the client is told."""


@dataclass(frozen=True, slots=True)
class Score:
    """How likely a token was, after penalties and bias, before grammar, filters and temperature."""

    logprob: float
    """Natural logarithm of its probability."""
    top: tuple[tuple[int, float], ...] = ()
    """The likeliest tokens and their log-probabilities, best first."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One phase of a traced row."""

    phase: str
    """Such as `prefill.chunk`."""
    started: float
    """On the machine's monotonic clock, in seconds."""
    seconds: float
    """How long it took."""
    attributes: dict[str, int]
    """Counts that belong to it."""


@dataclass(frozen=True, slots=True)
class Delta:
    """What one step did to one row."""

    request_id: RequestId
    """Which row."""
    tokens: tuple[int, ...] = ()
    """New tokens in order; the last one is the end token when `finish` is `stop`."""
    cached_tokens: int | None = None
    """On the first delta of a row: prompt tokens that came from the prompt cache."""
    finish: str | None = None
    """`stop` (end token), `complete` (the grammar is satisfied; the last token is text), `length` (max_tokens) or
    `error`; None while it runs."""
    failure: Failure | None = None
    """With `error`: why."""
    scores: tuple[Score, ...] = ()
    """One a token, when the row asked for log-probabilities."""
    marks: tuple[Mark, ...] = ()
    """On the first delta of a traced row."""


@dataclass(frozen=True, slots=True)
class StepEvents:
    """One message a step and ingress replica."""

    step: int
    """Number of the engine's step, rising; several steps are coalesced while the socket is full."""
    deltas: tuple[Delta, ...]
    """In order; one row may occur more than once when steps were coalesced."""
    draining: bool = False
    """The scheduler takes no new rows any more."""


@dataclass(frozen=True, slots=True)
class Hello:
    """First frame of an ingress on the mailbox socket."""

    ingress: IngressId
    """Who."""
    secret: str
    """From `Description`; a socket that does not know it is closed."""


@dataclass(frozen=True, slots=True)
class Description:
    """What is served, and where the mailbox is."""

    incarnation: Incarnation
    """Life of the scheduler."""
    model_id: str
    """Name shown on the wire."""
    model_path: str
    """Folder of the checkpoint on the scheduler's machine."""
    mailbox_host: str
    """Address of the mailbox."""
    mailbox_port: int
    """Port of the mailbox."""
    mailbox_secret: str
    """What `Hello` must carry. Never logged."""
    vocabulary: int
    """Token ids are below this (rows of the embedding matrix)."""
    context_limit: int | None
    """Enforced cap on prompt plus answer; None when none applies."""
    max_rows: int
    """Rows decoded together."""
    batchable: bool
    """Whether the model's caches can be batched; when not, rows are served one by one."""
    trimmable: bool
    """Whether stored prefixes can be cut at any token."""
    weight_bytes: int
    """Resident bytes of the weights."""
    dtype: str
    """Type of the weights."""
    device: str
    """`gpu` or `cpu`."""


@dataclass(frozen=True, slots=True)
class SpillingStatistics:
    """The scheduler's side of the SSD tier."""

    attached: bool
    """Whether the directory is in use."""
    pending_snapshots: int
    """Stored prefixes that are not durable yet."""
    pending_spill_bytes: int
    """What they lack on the disk."""
    spills: int
    """Prefixes made durable since start."""
    dropped_spills: int
    """Prefixes given up for want of room since start."""
    failed_spills: int
    """Tries that failed since start; each is repeated."""
    missing_snapshots: int
    """Prefixes given up that are not durable by other means."""
    restores: int
    """Prefixes read from the disk since start."""
    restored_tokens: int
    """Their tokens."""
    restore_ms_last: float
    """How long the last of them took to read, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """What a flush came to."""

    attached: bool
    """Whether there is an SSD tier in use; without one the rest is 0."""
    flushed_snapshots: int = 0
    """Prefixes that became durable meanwhile."""
    missing_snapshots: int = 0
    """Prefixes that are neither in RAM nor on the disk."""
    pending_snapshots: int = 0
    """Prefixes still not durable."""
    pending_spill_bytes: int = 0
    """What they lack on the disk."""
    dropped_spills: int = 0
    """Prefixes given up meanwhile."""
    failed_spills: int = 0
    """Tries that failed meanwhile."""
    elapsed_ms: int = 0
    """How long it took."""


@dataclass(frozen=True, slots=True)
class SchedulerStatistics:
    """State of the scheduler. Every duration is in seconds, every size in bytes."""

    active_rows: int
    """Decoding now."""
    prefilling_rows: int
    """Admitted, prompt not done."""
    waiting_rows: int
    """In line."""
    oldest_wait_s: float
    """How long the first in line has waited."""
    submitted_rows: int
    """Since start."""
    finished_rows: int
    """Ended by an end token or max_tokens."""
    cancelled_rows: int
    """Ended by their clients."""
    failed_rows: int
    """Ended by an exception."""
    prompt_tokens: int
    """Prompt tokens computed since start."""
    cached_tokens: int
    """Prompt tokens taken from the prompt cache since start."""
    generated_tokens: int
    """Since start."""
    tokens_per_s: float
    """Generated over the last ten seconds."""
    prefill_tokens_per_s: float
    """Measured prompt rate; what the step budget is made from."""
    steps: int
    """Decode steps since start."""
    kv_bytes: int
    """Caches of the running rows."""
    stored_bytes: int
    """Stored prefixes held here."""
    lease_wait_s: float
    """Waiting for the lease since start."""
    lease_hold_s: float
    """Holding it since start."""
    mailbox_depth: int
    """Messages in the engine's inbox."""
    mailbox_backlog_bytes: int
    """Events not yet taken by slow ingress replicas."""
    ingress_replicas: int
    """Connected mailboxes."""
    spilling: SpillingStatistics | None = None
    """None without an SSD tier."""
