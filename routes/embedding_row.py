"""An embedding model in the list of /v1/models."""

from __future__ import annotations

from actors.models.embedding_card import EmbeddingCard

_ABSENT = (
    "chat_completions",
    "text_completions",
    "anthropic_messages",
    "responses",
    "streaming",
    "tools",
    "structured_output",
    "logprobs",
    "vision",
    "audio",
    "adapters",
    "training",
)


def embedding_row(card: EmbeddingCard, created: int) -> dict[str, object]:
    """Its entry, with the fields that a model which generates has too. `created`: seconds since the epoch."""
    return {
        "id": card.model.model_id,
        "object": "model",
        "created": created,
        "owned_by": "troupe",
        "context_window": card.max_tokens,
        "dimensions": card.dimensions,
        "reasoning": False,
        "vision": False,
        "audio": False,
        "batch_mode": "batch",
        "tools": False,
        "structured_output": False,
        "embeddings": True,
        "adapters": False,
        "training": False,
        "dsa": False,
        "mtp": False,
        "capabilities": {**dict.fromkeys(_ABSENT, False), "embeddings": True},
        "gen_defaults": {"temperature": None, "top_p": None, "top_k": None},
    }
