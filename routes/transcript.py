"""A transcript in the formats it can be asked for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.transcription.messages import Transcript
from routes.schema.audio import Format
from routes.wire import json_bytes

MEDIA: Mapping[Format, str] = {
    "json": "application/json",
    "verbose_json": "application/json",
    "text": "text/plain",
    "srt": "application/x-subrip",
    "vtt": "text/vtt",
}


def written(transcript: Transcript, wanted: Format) -> bytes:
    """The body of the answer."""
    match wanted:
        case "text":
            return _bytes(transcript.text.strip() + "\n")
        case "srt":
            return _bytes(_srt(transcript.segments))
        case "vtt":
            return _bytes("WEBVTT\n\n" + "".join(_vtt(transcript.segments)))
        case _:
            return json_bytes(document(transcript, wanted))


def document(transcript: Transcript, wanted: Format) -> dict[str, Any]:
    """The JSON of the answer; `verbose_json` holds the segments too."""
    extra: dict[str, Any] = {
        "model": transcript.model,
        "language": transcript.language,
        "duration": transcript.duration,
        "timings": timings(transcript),
    }
    if transcript.vocabulary is not None:
        extra["vocabulary"] = transcript.vocabulary
    if transcript.voice is not None:
        extra["vad"] = transcript.voice
    if wanted != "verbose_json":
        return {"text": transcript.text, "mlx_bun": extra}
    found: dict[str, Any] = {
        "task": transcript.task,
        "language": transcript.language,
        "duration": transcript.duration,
        "text": transcript.text,
        "segments": list(transcript.segments),
    }
    words = [word for segment in transcript.segments for word in segment.get("words", ())]
    return {**found, **({"words": words} if words else {}), "mlx_bun": extra}


def timings(transcript: Transcript) -> dict[str, float]:
    """Where the time went, in milliseconds."""
    return {
        "load_ms": transcript.load_ms,
        "transcribe_ms": transcript.transcribe_ms,
        "total_ms": transcript.total_ms,
    }


def headers(transcript: Transcript, wanted: Format) -> dict[str, str]:
    """What formats without room for it say beside their text."""
    if wanted in ("json", "verbose_json"):
        return {}
    return {
        "x-mlx-bun-language": transcript.language or "",
        "x-mlx-bun-timings": json_bytes(timings(transcript)).decode(),
    }


def _srt(segments: Sequence[dict[str, Any]]) -> str:
    shown = [segment for segment in segments if segment["text"].strip()]
    return "".join(
        f"{number}\n{_time(segment['start'], ',')} --> {_time(segment['end'], ',')}\n{_line(segment)}\n\n"
        for number, segment in enumerate(shown, start=1)
    )


def _vtt(segments: Sequence[dict[str, Any]]) -> Sequence[str]:
    return [
        f"{_time(segment['start'], '.')} --> {_time(segment['end'], '.')}\n{_line(segment)}\n\n"
        for segment in segments
        if segment["text"].strip()
    ]


def _line(segment: dict[str, Any]) -> str:
    """An arrow would end the text of a cue."""
    return segment["text"].strip().replace("-->", "->")


def _time(seconds: float, point: str) -> str:
    total = max(0, round(seconds * 1000))
    hours, rest = divmod(total, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    whole, thousandths = divmod(rest, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{point}{thousandths:03}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
