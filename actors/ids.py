"""Identifiers, made in one place so that their shapes never drift apart."""

from __future__ import annotations

import secrets
from typing import NewType

RequestId = NewType("RequestId", str)
"""One client request; also the `id` of its response (`chatcmpl-…`, `cmpl-…`, `resp_…`)."""

IngressId = NewType("IngressId", str)
"""One life of one ingress replica. A restarted replica has a new one."""

EntryId = NewType("EntryId", str)
"""One stored prefix. Made by the scheduler that holds its tensors."""

Incarnation = NewType("Incarnation", str)
"""One life of an actor process. A message that names a dead incarnation is stale."""


def chat_completion_id() -> RequestId:
    return RequestId(f"chatcmpl-{secrets.token_hex(12)}")


def text_completion_id() -> RequestId:
    return RequestId(f"cmpl-{secrets.token_hex(12)}")


def embedding_id() -> RequestId:
    return RequestId(f"embd-{secrets.token_hex(12)}")


def transcription_id() -> RequestId:
    return RequestId(f"trsc-{secrets.token_hex(12)}")


def response_id() -> RequestId:
    return RequestId(f"resp_{secrets.token_hex(12)}")


def audio_session_id(replica: str) -> str:
    """A live transcription; its name says which replica opened it."""
    return f"asess-{replica}.{secrets.token_hex(16)}"


def message_id() -> RequestId:
    return RequestId(f"msg_{secrets.token_hex(12)}")


def tool_use_id() -> str:
    """A call in the Messages protocol."""
    return f"toolu_{secrets.token_hex(12)}"


def item_id(kind: str) -> str:
    """An item of a response or of its input; `kind` is `msg`, `rs`, `fc` and such."""
    return f"{kind}_{secrets.token_hex(12)}"


def tool_call_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def ingress_id() -> IngressId:
    return IngressId(f"ingress-{secrets.token_hex(6)}")


def entry_id() -> EntryId:
    return EntryId(f"entry-{secrets.token_hex(8)}")


def incarnation() -> Incarnation:
    return Incarnation(secrets.token_hex(8))
