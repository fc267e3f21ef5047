"""The languages Whisper knows, by code and by name. Importing mlx-whisper's list takes a second, so it is done late."""

from __future__ import annotations

from functools import cache


@cache
def codes() -> dict[str, str]:
    """Code by code, and by English name in small letters."""
    from mlx_whisper.tokenizer import LANGUAGES, TO_LANGUAGE_CODE

    return {**{code: code for code in LANGUAGES}, **TO_LANGUAGE_CODE}


def code_of(language: str) -> str | None:
    """The code of a language that is given by code or name; None for an unknown one. Blocks at the first call."""
    return codes().get(language.strip().lower())
