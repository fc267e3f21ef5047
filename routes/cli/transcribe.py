"""`troupe transcribe FILE…`: speech to text in this process, without a server."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from actors.errors import StartError, TroupeError
from actors.models.whisper_card import AUTO, NONE, WhisperCard, find_whisper
from actors.transcription.messages import Transcript
from routes.schema.audio import FORMATS, AudioFields, Format, read_audio_fields

_SUFFIX: dict[Format, str] = {"json": "json", "verbose_json": "json", "text": "txt", "srt": "srt", "vtt": "vtt"}
_MOST_S = 14_400.0
_DECODE_TIMEOUT_S = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, named as the fields of POST /v1/audio/transcriptions."""
    add = parser.add_argument
    add("files", nargs="+", type=Path, metavar="FILE", help="audio or video")
    add("--model", default=AUTO, help="Whisper repository or folder; the default is transcription.model's")
    add("--response-format", "--format", default="text", choices=FORMATS)
    add("--output-dir", type=Path, help="write a file each, instead of everything to standard output")
    add("--translate", action="store_true", help="write English, whatever is spoken")
    add("--language", help="code or English name; found out without it")
    add("--prompt", help="what might have been said before")
    add("--vocabulary", help="terms to expect, divided by commas")
    add("--temperature", type=float)
    add("--beam-size", type=int)
    add("--words", action="store_true", help="times of words, in verbose_json")
    add("--vad", action="store_true", help="listen for speech first")
    add("--vad-threshold", type=float)
    add("--vad-min-speech-ms", type=float)
    add("--vad-trim", action="store_true", help="cut silence off both ends")
    add("--no-condition-on-previous-text", action="store_true")
    add("--without-timestamps", action="store_true")
    add("--no-speech-threshold", type=float)
    add("--logprob-threshold", type=float)
    add("--compression-ratio-threshold", type=float)
    add("--faithful", action="store_true", help="mlx-whisper's own graph")
    add("--audio-ctx", type=int, help="encoder positions to compute, 1500 at most")
    add("--quiet", "-q", action="store_true", help="say nothing of progress")


def run(options: argparse.Namespace) -> int:
    """Transcribe every file. 0, or 1 when one of them could not be; the others are done all the same.

    Raises:
        StartError: an option is wrong, or there is no model.
    """
    try:
        wanted = read_audio_fields(_body(options), "translate" if options.translate else "transcribe")
    except TroupeError as error:
        raise StartError(error.message) from None
    if options.model == NONE:
        raise StartError("name a Whisper model")
    card = find_whisper(options.model, progress=not options.quiet)
    assert card is not None
    engine = _Engine(card, quiet=options.quiet)
    failed = False
    for file in options.files:
        try:
            transcript = engine.transcribe(file, wanted)
        except (TroupeError, OSError) as error:
            words = error.message if isinstance(error, TroupeError) else error.strerror
            print(f"troupe: {file}: {words}", file=sys.stderr)
            failed = True
            continue
        _write(transcript, wanted.format, file, options.output_dir)
    return int(failed)


def _body(options: argparse.Namespace) -> dict[str, object]:
    body: dict[str, object] = {
        name: value
        for name, value in vars(options).items()
        if name not in ("files", "model", "output_dir", "translate", "words", "quiet", "run")
        and value not in (None, False)
    }
    if body.pop("no_condition_on_previous_text", False):
        body["condition_on_previous_text"] = False
    if options.words:
        body["timestamp_granularities"] = ["word"]
    return body


class _Engine:
    """One model, loaded with the first file that holds speech."""

    def __init__(self, card: WhisperCard, *, quiet: bool) -> None:
        self._card = card
        self._quiet = quiet
        self._decoder: Any = None

    def transcribe(self, file: Path, wanted: AudioFields) -> Transcript:
        """Blocks for as long as it takes. Raises TroupeError or OSError."""
        from actors.transcription import listening
        from actors.transcription.audio import RATE
        from actors.transcription.clip import Clip
        from actors.transcription.wishes import checked

        came = time.monotonic()
        data = file.read_bytes()
        voice = listening.listen(self._blocks(data), wanted.voice) if wanted.voice is not None else None
        options = checked(wanted.options, self._card)
        offset, load_ms, segments, samples = 0.0, 0.0, (), 0
        clip = Clip(self._card.sizes["n_mels"], options)
        loaded = came
        if voice is None or voice.spans:
            span = voice.trimmed if voice is not None and wanted.voice is not None and wanted.voice.trim else None
            offset = span.start / RATE if span is not None else 0.0
            samples = clip.fill(listening.within(self._blocks(data), span))
            load_ms = self._load()
            loaded = time.monotonic()
            for done in self._windows(clip):
                self._tell(f"{file.name}: {done / 100:.0f} of {clip.frames / 100:.0f} s")
            segments = tuple(listening.moved(segment.plain(), offset) for segment in clip.segments)
        now = time.monotonic()
        return Transcript(
            model=self._card.model_id,
            task=options.task,
            language=clip.language,
            duration=(samples if voice is None else voice.samples) / RATE,
            text=clip.text,
            segments=segments,
            vocabulary=None if clip.vocabulary is None else clip.vocabulary.plain(),
            voice=None if voice is None else voice.plain(),
            load_ms=load_ms,
            transcribe_ms=round((now - loaded) * 1000, 3),
            total_ms=round((now - came) * 1000, 3),
        )

    def _blocks(self, data: bytes) -> Iterator[Any]:
        from actors.transcription.audio import blocks

        return blocks(data, _MOST_S, _DECODE_TIMEOUT_S)

    def _windows(self, clip: Any) -> Iterator[int]:
        while clip.waiting:
            clip.advance(self._decoder, lambda: True)
            yield clip.done_frames

    def _load(self) -> float:
        if self._decoder is not None:
            return 0.0
        from actors.transcription.decoder import WhisperDecoder
        from actors.transcription.loading import load

        started = time.monotonic()
        self._decoder = WhisperDecoder(load(self._card, "auto"))
        return round((time.monotonic() - started) * 1000, 3)

    def _tell(self, words: str) -> None:
        if not self._quiet:
            print(words, file=sys.stderr, flush=True)


def _write(transcript: Transcript, wanted: Format, file: Path, folder: Path | None) -> None:
    from routes.transcript import written

    content = written(transcript, wanted)
    if folder is None:
        sys.stdout.buffer.write(content if content.endswith(b"\n") else content + b"\n")
        sys.stdout.buffer.flush()
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{file.stem}.{_SUFFIX[wanted]}").write_bytes(content)
