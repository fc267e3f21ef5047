"""The fields of POST /v1/audio/transcriptions and of recording sessions, from JSON or from a form. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from actors.errors import InvalidRequest
from actors.transcription.messages import VoiceGate
from actors.transcription.options import LADDER, Task, TranscriptionOptions
from routes.schema import fields
from routes.schema.fields import Body

Format = Literal["json", "verbose_json", "text", "srt", "vtt"]
FORMATS: tuple[Format, ...] = ("json", "verbose_json", "text", "srt", "vtt")

MOST_BEAMS = 16
MOST_TERMS = 1000
MOST_PROMPT = 20_000
"""Characters of a prompt; the model reads 223 tokens of it."""

_BOOLEANS = (
    "stream",
    "condition_on_previous_text",
    "without_timestamps",
    "vad",
    "vad_trim",
    "faithful",
    "partials",
)
_WHOLE = ("beam_size", "audio_ctx")
_NUMBERS = (
    "temperature",
    "no_speech_threshold",
    "logprob_threshold",
    "compression_ratio_threshold",
    "vad_threshold",
    "vad_min_speech_ms",
)
_LISTS = ("timestamp_granularities", "vocabulary")
_UNSERVED = ("include", "chunking_strategy", "known_speaker_names", "known_speaker_references")
_WORDS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class AudioFields:
    """Everything about a transcription but its audio."""

    options: TranscriptionOptions
    """How the clip is transcribed."""
    voice: VoiceGate | None
    """Whether speech is listened for first."""
    format: Format
    """Of the answer."""
    stream: bool
    """Whether the answer comes as server-sent events."""


def read_audio_fields(body: Body, task: Task = "transcribe", formats: Sequence[Format] = FORMATS) -> AudioFields:
    """Check and read all fields. `model` may say anything.

    Raises:
        InvalidRequest: the first field that is wrong.
    """
    for name in _UNSERVED:
        if body.get(name) is not None:
            raise InvalidRequest(f"{name} is not served here")
    stream = fields.boolean(body, "stream") or False
    wanted = cast(Format, fields.choice(body, "response_format", formats) or "json")
    if stream and wanted not in ("json", "verbose_json", "text"):
        raise InvalidRequest(f"response_format {wanted} cannot be streamed; its text comes in the segments")
    return AudioFields(_options(body, task), _voice(body), wanted, stream)


def body_of_form(form: Mapping[str, Sequence[str]]) -> Body:
    """The fields of a form as JSON would have them; what cannot be read stays text, and is refused by its reader."""
    body: dict[str, object] = {}
    for name, values in form.items():
        name = name.removesuffix("[]")
        if name in _LISTS:
            body[name] = [part.strip() for value in values for part in value.split(",") if part.strip()]
        else:
            body[name] = _value(name, values[-1].strip())
    return body


def _value(name: str, text: str) -> object:
    if name in _BOOLEANS:
        return _WORDS.get(text.lower(), text)
    if name not in _WHOLE and name not in _NUMBERS:
        return text
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _options(body: Body, task: Task) -> TranscriptionOptions:
    temperature = fields.number(body, "temperature", 0, 1)
    beams = fields.integer(body, "beam_size", 1, MOST_BEAMS)
    if beams is not None and temperature:
        raise InvalidRequest("beam_size goes with temperature 0")
    plain = fields.boolean(body, "without_timestamps") or False
    words = "word" in _granularities(body)
    if plain and words:
        raise InvalidRequest("timestamp_granularities of words and without_timestamps do not go together")
    defaults = TranscriptionOptions()
    condition = fields.boolean(body, "condition_on_previous_text")
    return TranscriptionOptions(
        task=task,
        language=_language(body),
        temperatures=LADDER if temperature is None else (temperature,),
        beam_size=beams,
        prompt=_prompt(body),
        vocabulary=_vocabulary(body),
        condition_on_previous_text=True if condition is None else condition,
        without_timestamps=plain,
        word_timestamps=words,
        compression_ratio_threshold=_threshold(body, "compression_ratio_threshold", 0, 100, defaults),
        logprob_threshold=_threshold(body, "logprob_threshold", -100, 0, defaults),
        no_speech_threshold=_threshold(body, "no_speech_threshold", 0, 1, defaults),
        faithful=fields.boolean(body, "faithful") or False,
        audio_ctx=fields.integer(body, "audio_ctx", 1, 1500),
    )


def _threshold(body: Body, name: str, low: float, high: float, defaults: TranscriptionOptions) -> float | None:
    value = fields.number(body, name, low, high)
    return getattr(defaults, name) if value is None else value


def _language(body: Body) -> str | None:
    language = (fields.string(body, "language") or "").strip()
    if len(language) > 40:
        raise InvalidRequest("language must be a code such as 'en' or a name such as 'english'")
    return None if language.lower() in ("", "auto") else language


def _prompt(body: Body) -> str:
    prompt = fields.string(body, "prompt") or ""
    if len(prompt) > MOST_PROMPT:
        raise InvalidRequest(f"prompt must have at most {MOST_PROMPT} characters; the model reads 223 tokens of it")
    return prompt


def _granularities(body: Body) -> Sequence[str]:
    found = _strings(body, "timestamp_granularities")
    for value in found:
        if value not in ("segment", "word"):
            raise InvalidRequest("timestamp_granularities must hold 'segment' or 'word'")
    return found


def _vocabulary(body: Body) -> tuple[str, ...]:
    value = body.get("vocabulary")
    terms = value.split(",") if isinstance(value, str) else _strings(body, "vocabulary")
    found = tuple(dict.fromkeys(term.strip() for term in terms if term.strip()))
    if len(found) > MOST_TERMS or sum(map(len, found)) > MOST_PROMPT:
        raise InvalidRequest(f"vocabulary must hold at most {MOST_TERMS} terms of {MOST_PROMPT} characters together")
    return found


def _strings(body: Body, name: str) -> Sequence[str]:
    value = body.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidRequest(f"{name} must be an array of strings")
    return cast("list[str]", value)


def _voice(body: Body) -> VoiceGate | None:
    threshold = fields.number(body, "vad_threshold", 0, 1)
    least = fields.number(body, "vad_min_speech_ms", 0, 60_000)
    trim = fields.boolean(body, "vad_trim")
    if not fields.boolean(body, "vad"):
        return None
    defaults = VoiceGate()
    return VoiceGate(
        threshold=defaults.threshold if threshold is None else threshold,
        min_speech_ms=defaults.min_speech_ms if least is None else least,
        trim=trim or False,
    )
