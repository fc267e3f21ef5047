"""A Whisper model in the list of /v1/models, where it is all that is served."""

from __future__ import annotations

from actors.models.card import ModelCard

_FIELDS = ("reasoning", "vision", "audio", "tools", "structured_output", "embeddings", "adapters", "training")
_CAPABILITIES = (
    "chat_completions",
    "text_completions",
    "anthropic_messages",
    "responses",
    "streaming",
    "tools",
    "structured_output",
    "logprobs",
    "embeddings",
    "vision",
    "audio",
    "adapters",
    "training",
)


def speech_row(card: ModelCard, created: int) -> dict[str, object]:
    """Its entry, with the fields that a model which generates has too. `created`: seconds since the epoch."""
    return {
        "id": card.model_id,
        "object": "model",
        "created": created,
        "owned_by": "troupe",
        "context_window": card.context_window,
        **dict.fromkeys(_FIELDS, False),
        "batch_mode": "off",
        "dsa": False,
        "mtp": False,
        "capabilities": {**dict.fromkeys(_CAPABILITIES, False), "transcription": True},
        "gen_defaults": {"temperature": None, "top_p": None, "top_k": None},
    }
