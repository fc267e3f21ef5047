"""What is asked for, against what a model can do. Blocks at the first call, for the list of languages."""

from __future__ import annotations

import dataclasses

from actors.errors import InvalidRequest
from actors.models.whisper_card import WhisperCard
from actors.transcription.languages import code_of
from actors.transcription.options import TranscriptionOptions


def checked(options: TranscriptionOptions, card: WhisperCard) -> TranscriptionOptions:
    """The options with their language as a code.

    Raises:
        InvalidRequest: the model does not know the language, or cannot do what is asked.
    """
    if options.language is not None:
        code = code_of(options.language)
        if code is None:
            raise InvalidRequest(f"language {options.language!r} is not one that Whisper knows")
        options = dataclasses.replace(options, language=code)
    if not card.multilingual and (options.task == "translate" or options.language not in (None, "en")):
        raise InvalidRequest(f"{card.model_id} knows English only")
    if options.audio_ctx is not None and options.audio_ctx > card.sizes["n_audio_ctx"]:
        raise InvalidRequest(f"audio_ctx must be at most {card.sizes['n_audio_ctx']}")
    return options
