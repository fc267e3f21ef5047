"""Two ways to run a Whisper model, token by token, for one window and any number of rows.

`FaithfulGraph` is mlx-whisper's own. `FastGraph` computes the same with fused attention, caches that grow in place,
one set of keys and values of the audio for all rows, and no scores that nobody reads. MLX; engine thread only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map
from mlx_lm.models.cache import KVCache


class Graph(Protocol):
    """The decoder at work on one window. Scores are float32, before any rule."""

    def begin(self, tokens: Sequence[int], sot: int) -> tuple[mx.array, mx.array]:
        """Read a prompt as one row. Scores behind its last token and behind the one at `sot`, each (1, vocabulary)."""
        ...

    def spread(self, rows: int) -> None:
        """Go on as that many equal rows."""
        ...

    def step(self, tokens: mx.array) -> mx.array:
        """One token a row. Scores (rows, vocabulary) behind them."""
        ...

    def reorder(self, sources: Sequence[int]) -> None:
        """Row i goes on with what row sources[i] has seen."""
        ...


def encode(model: Any, mel: mx.array, audio_ctx: int | None, faithful: bool) -> mx.array:
    """What the decoder attends to: (1, positions, width), from a spectrogram of (3000, mels).

    Args:
        model: mlx-whisper's model.
        mel: in the model's type.
        audio_ctx: positions to compute; None computes them all.
        faithful: run mlx-whisper's own encoder.
    """
    if faithful and audio_ctx is None:
        return model.encoder(mel[None])
    encoder = model.encoder
    positions = encoder._positional_embedding
    if audio_ctx is not None:
        positions = positions[:audio_ctx]
        mel = mel[: 2 * audio_ctx]
    x = nn.gelu(encoder.conv2(nn.gelu(encoder.conv1(mel[None])))) + positions
    for block in encoder.blocks:
        y = block.attn_ln(x)
        attention = block.attn
        x = x + _attend(attention, attention.query(y), attention.key(y), attention.value(y))
        x = _feed_forward(block, x)
    return encoder.ln_post(x)


class FaithfulGraph:
    """Implements `Graph` by mlx-whisper's decoder."""

    def __init__(self, model: Any, features: mx.array) -> None:
        self._decoder = model.decoder
        self._features = features
        self._cache: Any = None

    def begin(self, tokens: Sequence[int], sot: int) -> tuple[mx.array, mx.array]:
        logits, self._cache, _ = self._decoder(mx.array([tokens]), self._features)
        logits = logits.astype(mx.float32)
        return logits[:, -1], logits[:, sot]

    def spread(self, rows: int) -> None:
        self._features = mx.repeat(self._features, rows, axis=0)
        self._cache = tree_map(lambda array: mx.repeat(array, rows, axis=0), self._cache)

    def step(self, tokens: mx.array) -> mx.array:
        logits, self._cache, _ = self._decoder(tokens[:, None], self._features, kv_cache=self._cache)
        return logits[:, -1].astype(mx.float32)

    def reorder(self, sources: Sequence[int]) -> None:
        if list(sources) != list(range(len(sources))):
            places = mx.array(list(sources))
            self._cache = tree_map(lambda array: array[places], self._cache)


class FastGraph:
    """Implements `Graph`."""

    def __init__(self, model: Any, features: mx.array) -> None:
        self._decoder = model.decoder
        self._offset = 0
        self._caches: list[Any] = [KVCache() for _ in self._decoder.blocks]
        # (1, heads, positions, width of a head), the same for every row.
        self._audio = [
            (
                _heads(block.cross_attn.key(features), block.cross_attn.n_head),
                _heads(block.cross_attn.value(features), block.cross_attn.n_head),
            )
            for block in self._decoder.blocks
        ]

    def begin(self, tokens: Sequence[int], sot: int) -> tuple[mx.array, mx.array]:
        hidden = self._hidden(mx.array([tokens]))
        last = len(tokens) - 1
        scores = self._decoder.token_embedding.as_linear(hidden[:, [last, sot]]).astype(mx.float32)
        return scores[:, 0], scores[:, 1]

    def spread(self, rows: int) -> None:
        if rows > 1:
            self._each(lambda array: mx.repeat(array, rows, axis=0))

    def step(self, tokens: mx.array) -> mx.array:
        hidden = self._hidden(tokens[:, None])
        return self._decoder.token_embedding.as_linear(hidden[:, 0]).astype(mx.float32)

    def reorder(self, sources: Sequence[int]) -> None:
        if list(sources) != list(range(len(sources))):
            places = mx.array(list(sources))
            self._each(lambda array: array[places])

    def _each(self, change: Any) -> None:
        for cache in self._caches:
            cache.keys, cache.values = change(cache.keys), change(cache.values)

    def _hidden(self, tokens: mx.array) -> mx.array:
        decoder, length = self._decoder, tokens.shape[1]
        positions = decoder.positional_embedding[self._offset : self._offset + length]
        x = decoder.token_embedding(tokens) + positions
        for block, cache, (keys, values) in zip(decoder.blocks, self._caches, self._audio, strict=True):
            x = x + self._own(block.attn, block.attn_ln(x), cache)
            x = x + _listen(block.cross_attn, block.cross_attn_ln(x), keys, values)
            x = _feed_forward(block, x)
        self._offset += length
        return decoder.ln(x)

    def _own(self, attention: Any, y: mx.array, cache: Any) -> mx.array:
        q, k, v = (_heads(part(y), attention.n_head) for part in (attention.query, attention.key, attention.value))
        k, v = cache.update_and_fetch(k, v)
        mask = "causal" if y.shape[1] > 1 else None
        return attention.out(_merged(mx.fast.scaled_dot_product_attention(q, k, v, scale=_scale(q), mask=mask)))


def _listen(attention: Any, y: mx.array, keys: mx.array, values: mx.array) -> mx.array:
    """All rows and tokens ask the one audio at once, as queries of a single row."""
    rows, length, width = y.shape
    q = _heads(attention.query(y).reshape(1, rows * length, width), attention.n_head)
    heard = mx.fast.scaled_dot_product_attention(q, keys, values, scale=_scale(q))
    return attention.out(_merged(heard)).reshape(rows, length, width)


def _attend(attention: Any, q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    q, k, v = (_heads(part, attention.n_head) for part in (q, k, v))
    return attention.out(_merged(mx.fast.scaled_dot_product_attention(q, k, v, scale=_scale(q))))


def _feed_forward(block: Any, x: mx.array) -> mx.array:
    return x + block.mlp2(nn.gelu(block.mlp1(block.mlp_ln(x))))


def _heads(x: mx.array, heads: int) -> mx.array:
    rows, length, width = x.shape
    return x.reshape(rows, length, heads, width // heads).transpose(0, 2, 1, 3)


def _merged(x: mx.array) -> mx.array:
    rows, heads, length, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(rows, length, heads * width)


def _scale(q: mx.array) -> float:
    return q.shape[-1] ** -0.5
