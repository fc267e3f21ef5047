"""The whole configuration: one model, read from the `args` of a Serve application in configs/*.yaml.

An unknown or ill-typed key is refused with its path and what would have been allowed there (`explain`).
docs/configuration.md is generated from the descriptions below by `troupe reference`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel, Field, SecretStr, ValidationError

from actors.errors import StartError
from actors.section import Section, Size
from actors.server_settings import ServerSettings
from actors.session_settings import SessionSettings


class IngressSettings(Section):
    """The processes that speak HTTP, render chat templates and tokenize."""

    min_replicas: int = Field(default=1, ge=1, description="Replicas kept even when idle.")
    max_replicas: int = Field(
        default=1, ge=1, description="Replicas at most; above the minimum they follow open requests."
    )
    target_requests: int = Field(default=64, ge=1, description="Open requests a replica before another one is started.")
    preparation_queue: int = Field(
        default=64, ge=1, description="Requests that may wait for rendering and tokenizing; one more answers 429."
    )
    preparation_threads: int = Field(default=1, ge=1, le=16, description="Threads that render and tokenize.")


class ToneSettings(Section):
    """The HLG tone curve: sampling by a temperature that softens towards the best and the least likely tokens."""

    enabled: bool = Field(default=False, description="Use the curve for requests that do not say.")
    width: float = Field(default=4.0, ge=0, le=100, description="Half-width of its straight middle, in nats.")
    shoulder: float = Field(default=4.0, ge=0, le=100, description="Softness above the middle; 0 is plain temperature.")
    toe: float = Field(default=6.0, ge=0, le=100, description="Softness below the middle; 0 is plain temperature.")
    pivot_offset: float = Field(default=6.0, ge=0, le=100, description="Distance of its pivot from the best token.")


class GrammarSettings(Section):
    """Structured output: grammars that answers must follow."""

    enabled: bool = Field(
        default=True,
        description="Enforce them. Otherwise the model is asked in words, and the response carries a Warning header.",
    )
    compile_timeout_s: float = Field(
        default=10.0, gt=0, le=120, description="Time to compile one; a slower one is not enforced."
    )
    cache_bytes: Size = Field(default=256 * 2**20, description="RAM for compiled grammars.")


class GenerationSettings(Section):
    """The generation scheduler: its batch, its queue and what a request gets when it does not say."""

    max_rows: int = Field(
        default=8, ge=1, le=256, description="Requests decoded together. 1 serves strictly one by one."
    )
    queue: int = Field(default=64, ge=1, description="Requests that may wait for a row; one more answers 429.")
    prefill_stall_s: float = Field(
        default=0.2,
        gt=0,
        le=10,
        description="How long running rows may wait for a chunk of somebody's prompt; sets the prefill token budget "
        "of a step from the measured prefill rate.",
    )
    prefill_step_tokens: int = Field(
        default=2048,
        ge=16,
        le=65536,
        description="Prompt tokens of one step at most, whatever the measured rate allows.",
    )
    context_tokens: Annotated[int, Field(ge=1)] | Literal["model"] | None = Field(
        default=None,
        description="Cap on prompt plus answer. `model` takes the model's own window; unset never caps. A prompt that "
        "leaves no room answers 400 context_over_budget, and max_tokens is cut to the room left.",
    )
    temperature: float | None = Field(default=None, ge=0, le=5, description="Default temperature; 0 is greedy.")
    top_p: float | None = Field(default=None, ge=0, le=1, description="Default top_p; 0 is off.")
    top_k: int | None = Field(default=None, ge=0, description="Default top_k; 0 is off.")
    tool_format: str | None = Field(
        default=None,
        description="Markup of tool calls, where the chat template and the tokenizer do not tell it rightly.",
    )
    reasoning_format: str | None = Field(
        default=None,
        description="Marks of thinking, where the chat template and the tokenizer do not tell them rightly; `none` "
        "leaves thinking in the content.",
    )
    grammar: GrammarSettings = Field(default_factory=GrammarSettings, description="Structured output.")
    hlg: ToneSettings = Field(default_factory=ToneSettings, description="Tone curve; a request's `hlg` goes over it.")
    max_tokens: int | None = Field(
        default=None, ge=1, description="Default max_tokens; unset generates until the end token."
    )
    blas: Literal["auto", "off"] = Field(
        default="auto",
        description="On a CPU, `auto` preloads OpenBLAS into the scheduler where the system has it (30 times faster "
        "in float32); `off` never does.",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto",
        description="Type of the weights. `auto` keeps the checkpoint's own on a GPU and converts to float32 on a CPU, "
        "which runs nothing else at speed; quantized layers keep their quantization.",
    )
    trust_model_code: bool = Field(
        default=False, description="Run the Python file a checkpoint names in `model_file`. Only for folders you wrote."
    )


class PromptCacheSettings(Section):
    """The RAM tier of known prefixes."""

    max_bytes: Size = Field(default=8 * 2**30, description="RAM for stored prefixes; 0 switches the cache off.")
    min_tokens: int = Field(default=16, ge=1, description="Shorter prefixes are not worth an entry.")
    idle_s: float = Field(
        default=300.0, gt=0, description="An entry unused for this long leaves the RAM once it is durable on the SSD."
    )
    pressure: float = Field(
        default=0.85,
        gt=0,
        le=1,
        description="Prefixes are given up while the machine's memory (on a GPU, the part of it that MLX should use) "
        "is fuller than this; 1 never does that.",
    )
    boundary_tokens: int = Field(
        default=2048,
        ge=0,
        description="For models whose caches cannot be cut anywhere (state space layers, sliding windows): keep the "
        "state after every so many tokens of a prompt; 0 keeps it only where turns end.",
    )


class EmbeddingSettings(Section):
    """Embeddings: the model, and the line in front of it."""

    model: str | None = Field(
        default=None,
        min_length=1,
        description="Embedding model beside the chat model: a hub repo id or the path of a local folder. Unset serves "
        "embeddings only where `model` itself is an embedding model.",
    )
    queue: int = Field(
        default=64, ge=1, description="Embedding requests that may wait or be computed; one more answers 429."
    )
    stall_s: float = Field(
        default=0.2,
        gt=0,
        le=10,
        description="How long a forward pass should take at most; running chats wait about that long. Sets the tokens "
        "of a pass from the measured rate.",
    )
    batch_tokens: int = Field(
        default=8192, ge=64, le=2**20, description="Tokens of a pass at most, padding included, whatever the rate."
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="Type of the weights, as `generation.dtype`."
    )


class TranscriptionSettings(Section):
    """Speech to text: the Whisper model, and what a clip may be."""

    model: str = Field(
        default="auto",
        min_length=1,
        description="Whisper model beside the main one: a hub repo id such as `mlx-community/whisper-small-mlx`, the "
        "path of a local folder, or `starter-whisper` (tiny.en). `auto` takes the first Whisper model in the hub's "
        "local cache, else the starter, fetched with the first request. `none` serves no transcription.",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="Type of the weights; `auto` takes float16 on a GPU and float32 on a CPU."
    )
    resident: bool = Field(default=False, description="Keep the weights once they are loaded.")
    idle_unload_s: float = Field(
        default=60.0, ge=0, description="Otherwise they are given up when nobody has used them for so long."
    )
    queue: int = Field(default=32, ge=1, description="Transcriptions that may wait or run; one more answers 429.")
    threads: int = Field(default=2, ge=1, le=64, description="Threads that decode audio and listen for speech.")
    audio_bytes: Size = Field(
        default=2 * 2**30,
        ge=1,
        description="RAM for sound that is decoded and waits to be transcribed, about 45 MB an hour. Above it clips "
        "wait as they came, and chunks of live sessions answer 429.",
    )
    max_duration_s: float = Field(default=14_400.0, gt=0, description="Longest clip; a longer one answers 400.")
    decode_timeout_s: float = Field(
        default=60.0, gt=0, description="Time to decode an upload; a slower one answers 400."
    )


class ResponseSettings(Section):
    """The store behind `previous_response_id` of POST /v1/responses."""

    max_bytes: Size = Field(
        default=32 * 2**20,
        description="RAM for stored responses; the least recently used go first. 0 stores none.",
    )
    ttl_s: float = Field(default=3600.0, gt=0, description="How long a stored response lives.")


class SsdCacheSettings(Section):
    """The SSD tier: prefixes that survive a restart, written behind the requests. It stands on the prompt cache."""

    enabled: bool = Field(default=False, description="Write every stored prefix to the disk, and read it from there.")
    dir: str | None = Field(
        default=None,
        min_length=1,
        description="Folder for the files, for one server at a time; unset takes `prefixes` in the user's cache "
        "folder. What is in it can be read by whoever can read the files: the prompts are part of it.",
    )
    max_bytes: Size = Field(
        default=32 * 2**30, description="Disk space for prefixes; the least recently used go when it is full."
    )
    queue_bytes: Size = Field(
        default=2**30,
        description="Bytes that may wait to be written after the RAM tier has given them up; more is dropped.",
    )
    block_tokens: int = Field(default=256, ge=1, le=65536, description="Tokens of one file at most.")
    checkpoint_tokens: int = Field(
        default=0,
        ge=0,
        description="Make an answer durable every so many generated tokens: when an identical request comes after a "
        "crash, it goes on from there. 0 keeps no unfinished answers.",
    )
    flush_timeout_s: float = Field(
        default=120.0, ge=0, description="How long a stopping server, or a flush, waits for the disk."
    )


class LeaseWeights(Section):
    """Shares of MLX time under contention; each class gets weight / sum of the weights of those waiting."""

    interactive: float = Field(default=8.0, gt=0, description="Chat and text completions.")
    transcription: float = Field(default=4.0, gt=0, description="Speech to text.")
    embeddings: float = Field(default=2.0, gt=0, description="Embeddings.")
    background: float = Field(default=1.0, gt=0, description="Jobs such as training and quantization.")


class LeaseSettings(Section):
    """The one permission a machine gives to run MLX."""

    slice_ms: float = Field(
        default=100.0, gt=0, description="Measured work a holder does before it yields to a waiter."
    )
    liveness_ms: float = Field(default=250.0, gt=0, le=1000, description="How often a holder's process is checked.")
    weights: LeaseWeights = Field(default_factory=LeaseWeights, description="Shares under contention.")
    memory_budget: Size | None = Field(
        default=None, description="Bytes of weights and caches the ledger may hand out; unset takes 0.75 of the RAM."
    )


class LibrarySettings(Section):
    """The models on disk, and what fetches more of them."""

    state_dir: str | None = Field(
        default=None,
        min_length=1,
        description="Folder for the hub token, the list of downloads and measured rates; unset takes `~/.troupe`.",
    )


class LoggingSettings(Section):
    """What the actors write."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="Least level written.")
    trace: bool = Field(
        default=False,
        description="Write a `[p2r]` record for each completion request, with the time of every phase. The environment "
        "variable MLX_BUN_P2R_TRACE=1 does the same.",
    )
    format: Literal["text", "json"] = Field(default="text", description="`json` writes one object a line.")


class Settings(Section):
    """Everything configs/*.yaml may say under `args`."""

    model: str = Field(
        default="starter",
        min_length=1,
        description="`starter` (SmolLM2-135M-Instruct, fetched once), a hub repo id such as "
        "`mlx-community/Qwen3-4B-4bit`, or the path of a local folder.",
    )
    server: ServerSettings = Field(default_factory=ServerSettings, description="HTTP.")
    ingress: IngressSettings = Field(default_factory=IngressSettings, description="HTTP processes.")
    generation: GenerationSettings = Field(default_factory=GenerationSettings, description="Generation.")
    prompt_cache: PromptCacheSettings = Field(default_factory=PromptCacheSettings, description="Prompt cache.")
    ssd_cache: SsdCacheSettings = Field(default_factory=SsdCacheSettings, description="SSD tier of the prompt cache.")
    embeddings: EmbeddingSettings = Field(default_factory=EmbeddingSettings, description="Embeddings.")
    transcription: TranscriptionSettings = Field(default_factory=TranscriptionSettings, description="Speech to text.")
    audio_sessions: SessionSettings = Field(default_factory=SessionSettings, description="Live transcription.")
    responses: ResponseSettings = Field(default_factory=ResponseSettings, description="Stored responses.")
    gpu_lease: LeaseSettings = Field(default_factory=LeaseSettings, description="GPU lease.")
    library: LibrarySettings = Field(default_factory=LibrarySettings, description="Models on disk.")
    logging: LoggingSettings = Field(default_factory=LoggingSettings, description="Logging.")


def parse(args: Mapping[str, Any]) -> Settings:
    """Settings from the `args` of an application.

    Raises:
        StartError: a key is unknown or ill-typed; the message holds one line a fault, each with its path.
    """
    try:
        return Settings.model_validate(dict(args))
    except ValidationError as error:
        raise StartError("\n".join(explain(error))) from None


def read(path: Path) -> Settings:
    """Settings of the application in a Serve config file.

    Raises:
        StartError: the file is missing, is no Serve config with one application, or says something wrong.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StartError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StartError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    applications = document.get("applications") if isinstance(document, dict) else None
    if not isinstance(applications, list) or len(applications) != 1 or not isinstance(applications[0], dict):
        raise StartError(f"{path} should hold `applications:` with exactly one application")
    args = applications[0].get("args") or {}
    if not isinstance(args, dict):
        raise StartError(f"{path}: args should be a mapping of settings")
    return parse(args)


def explain(error: ValidationError) -> list[str]:
    """One sentence a fault: the key's path, what is wrong, what is allowed there."""
    return [_sentence(fault) for fault in error.errors()]


def _sentence(fault: Any) -> str:
    location = [part for part in fault["loc"] if not (isinstance(part, str) and part.startswith(("literal[", "int")))]
    path = ".".join(str(part) for part in location)
    if fault["type"] == "extra_forbidden":
        parent = _section(location[:-1])
        allowed = ", ".join(sorted(parent.model_fields)) if parent else "nothing"
        return f"{path}: unknown setting; allowed here: {allowed}"
    unseen = isinstance(fault.get("input"), dict) or _is_secret(location)
    given = "" if unseen else f", not {fault.get('input')!r}"
    message = fault["msg"].removeprefix("Value error, ").replace("valid tuple", "list")
    return f"{path or 'args'}: {message[:1].lower()}{message[1:]}{given}{_choices(location)}"


def _is_secret(location: list[Any]) -> bool:
    """Whether what was given may be a key or hold one."""
    return location[:2] in (["server", "api_key"], ["server", "api_keys"]) and location[-1] not in ("name", "scopes")


def _choices(location: list[Any]) -> str:
    parent = _section(location[:-1])
    if parent is None or not location or location[-1] not in parent.model_fields:
        return ""
    info = parent.model_fields[location[-1]]
    return f" (allowed: {_type_name(info.annotation)})"


def _type_name(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "a mapping of " + ", ".join(sorted(annotation.model_fields))
    if annotation is SecretStr:
        return "str"
    if get_origin(annotation) is Annotated:
        return _type_name(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return ", ".join(repr(value) for value in get_args(annotation))
    if get_origin(annotation) is tuple:
        return f"a list of {_type_name(get_args(annotation)[0])}"
    if parts := [part for part in get_args(annotation) if part is not Ellipsis]:
        return " or ".join("null" if part is type(None) else _type_name(part) for part in parts)
    return getattr(annotation, "__name__", str(annotation))


def _section(location: list[Any]) -> type[BaseModel] | None:
    model: type[BaseModel] | None = Settings
    for part in location:
        if isinstance(part, int):
            continue  # an entry of a list of sections, whose name came before
        info = model.model_fields.get(str(part)) if model else None
        model = _model_of(info.annotation) if info else None
    return model


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The section that a setting is, or is a list of."""
    if get_origin(annotation) is tuple:
        annotation = get_args(annotation)[0]
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
