"""What came over a socket, read afterwards: the bytes of one HTTP response with the times they arrived. Pure.

Nothing is parsed while a measurement runs, so the load generator costs every server the same, and little.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

_HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Reply:
    """One streamed answer. Times are seconds on the client's clock."""

    sent_at: float
    """When the request left."""
    ended_at: float
    """When the last byte came, or the connection broke."""
    status: int
    """HTTP status; 0 when no response came."""
    error: str
    """Why the answer is not whole; empty when it is."""
    times: tuple[float, ...] = ()
    """When each piece of text came."""
    text: str = ""
    """The pieces together."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    """As the server counts them; the number of pieces when it did not say."""

    @property
    def whole(self) -> bool:
        return self.status == 200 and not self.error

    @property
    def ttft_s(self) -> float:
        """Seconds from sending to the first piece of text. Raises `IndexError` when there was none."""
        return self.times[0] - self.sent_at

    @property
    def gaps_s(self) -> list[float]:
        """Seconds between pieces."""
        return [later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)]


def read_reply(sent_at: float, ended_at: float, pieces: Sequence[tuple[float, bytes]], broken: str = "") -> Reply:
    """The reply in recorded bytes.

    Args:
        sent_at: when the request left.
        ended_at: when the connection ended.
        pieces: what the socket gave, each with its time.
        broken: what ended the connection early; empty for a regular end.
    """
    raw = b"".join(data for _, data in pieces)
    head, separator, _ = raw.partition(_HEAD_END)
    if not separator:
        return Reply(sent_at, ended_at, 0, broken or "no response")
    status = int(head.split(b" ", 2)[1])
    start = len(head) + len(_HEAD_END)
    chunked = b"transfer-encoding: chunked" in head.lower()
    blocks = dechunk(raw, start) if chunked else [(raw[start:], len(raw))]
    if status != 200:
        body = b"".join(data for data, _ in blocks).decode("utf-8", "replace")
        return Reply(sent_at, ended_at, status, body[:300] or f"status {status}")
    ends = list(accumulate(len(data) for _, data in pieces))
    moments = [time for time, _ in pieces]
    events = _events(raw, start) if not chunked else _chunked_events(blocks)
    return _summarize(sent_at, ended_at, [(moments[bisect_left(ends, end)], data) for data, end in events], broken)


def dechunk(raw: bytes, start: int) -> list[tuple[bytes, int]]:
    """The chunks of a chunked body that came whole: content, and the offset in `raw` where the content ends."""
    chunks = []
    while (line_end := raw.find(b"\r\n", start)) >= 0:
        size = int(raw[start:line_end].split(b";")[0], 16)
        begin, end = line_end + 2, line_end + 2 + size
        if size == 0 or end > len(raw):
            break
        chunks.append((raw[begin:end], end))
        start = end + 2
    return chunks


def _events(raw: bytes, start: int) -> list[tuple[bytes, int]]:
    """Server-sent events in `raw`: the block of lines, and the offset where it ends."""
    events = []
    while (end := raw.find(b"\n\n", start)) >= 0:
        events.append((raw[start:end], end + 2))
        start = end + 2
    return events


def _chunked_events(chunks: Sequence[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    body = b"".join(data for data, _ in chunks)
    inner = list(accumulate(len(data) for data, _ in chunks))
    return [(data, chunks[bisect_left(inner, end)][1]) for data, end in _events(body, 0)]


def _summarize(sent_at: float, ended_at: float, events: Sequence[tuple[float, bytes]], broken: str) -> Reply:
    times: list[float] = []
    texts: list[str] = []
    usage: dict[str, Any] = {}
    error, done = broken, False
    for moment, event in events:
        if not event.startswith(b"data:"):
            continue  # a comment that keeps the connection open
        payload = event[5:].strip()
        if payload == b"[DONE]":
            done = True
            continue
        message = json.loads(payload)
        if "error" in message:
            error = str(message["error"])[:300]
        usage = message.get("usage") or usage
        text = "".join(_text(choice) for choice in message.get("choices") or ())
        if text:
            times.append(moment)
            texts.append(text)
    if not done and not error:
        error = "the stream ended early"
    return Reply(
        sent_at,
        ended_at,
        200,
        error,
        tuple(times),
        "".join(texts),
        usage.get("prompt_tokens", 0),
        (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
        usage.get("completion_tokens", len(times)),
    )


def _text(choice: dict[str, Any]) -> str:
    return (choice.get("delta") or {}).get("content") or choice.get("text") or ""
