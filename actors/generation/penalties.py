"""What changes the logits of all rows before a token is picked: bias and penalties. Vectorized.

The order is mlx-lm's: bias, then the repetition, presence and frequency penalties. Each looks at a window of the
row's last tokens. The windows live on the device, because the newest token is often not computed yet when the next
step is built from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from actors.generation.messages import Sampling

_WEAKEST_DIVISOR = 1e-20
"""A repetition penalty is no lower in the arithmetic, so that no logit becomes infinite in float32."""


class Recent:
    """The last tokens of some rows.

    Args:
        histories: tokens of each row so far.
        windows: how many of the last ones each row looks at; 0 looks at all.
    """

    def __init__(self, histories: Sequence[Sequence[int]], windows: Sequence[int]) -> None:
        cut = [history[-window:] if window else history for history, window in zip(histories, windows, strict=True)]
        width = max(len(history) for history in cut)
        table = np.zeros((len(cut), width), dtype=np.int32)
        for row, history in enumerate(cut):
            table[row, width - len(history) :] = history
        self._tokens = mx.array(table)
        self._known = np.array([len(history) for history in cut])
        self._limits = np.array([window or np.iinfo(np.int64).max for window in windows])
        self._most = max(windows) if all(windows) else None

    def push(self, tokens: mx.array) -> None:
        """Add the newest token of each row. [rows]"""
        table = mx.concatenate([self._tokens, tokens[:, None]], axis=1)
        self._tokens = table if self._most is None else table[:, -self._most :]
        self._known = np.minimum(self._known + 1, self._limits)

    def inside(self) -> tuple[mx.array, mx.array]:
        """Token ids and which of them are within their row's window; both [rows, width]. The last one always is."""
        width = self._tokens.shape[1]
        return self._tokens, mx.arange(width)[None, :] >= mx.array(width - self._known)[:, None]


class _Penalty:
    """One kind of penalty, for the rows that use it."""

    def __init__(
        self,
        rows: Sequence[int],
        strengths: Sequence[float],
        recent: Recent,
        apply: Callable[[mx.array, mx.array, mx.array, mx.array], mx.array],
    ) -> None:
        self._rows = mx.array(list(rows), dtype=mx.int32)
        self._strengths = mx.array(list(strengths), dtype=mx.float32)[:, None]
        self._recent = recent
        self._apply = apply

    def __call__(self, logits: mx.array, inputs: mx.array) -> mx.array:
        self._recent.push(inputs[self._rows])
        tokens, inside = self._recent.inside()
        every = len(self._rows) == len(logits)
        part = self._apply(logits if every else logits[self._rows], tokens, inside, self._strengths)
        if every:
            return part
        logits[self._rows] = part
        return logits


class LogitProcessors:
    """Bias and penalties of the rows of one batch; made anew when a row joins or leaves.

    Args:
        rows: parameters in batch order.
        histories: tokens of each row, without the input of the next step.
    """

    def __init__(self, rows: Sequence[Sampling], histories: Sequence[Sequence[int]]) -> None:
        self._bias = _bias(rows)
        made = [
            _penalty(rows, histories, _repeat, [(_divisor(row), 1.0, row.repetition_window) for row in rows]),
            _penalty(rows, histories, _presence, [(row.presence_penalty, 0.0, row.presence_window) for row in rows]),
            _penalty(rows, histories, _frequency, [(row.frequency_penalty, 0.0, row.frequency_window) for row in rows]),
        ]
        self._penalties = [penalty for penalty in made if penalty is not None]

    def __call__(self, logits: mx.array, inputs: mx.array) -> mx.array:
        """Logits [rows, vocabulary] with everything applied; the very same array when no row asks for anything.

        Args:
            inputs: token each row was given in this step, [rows]; may not be computed yet.
        """
        if self._bias is None and not self._penalties:
            return logits
        logits = logits.astype(mx.float32)
        if self._bias is not None:
            rows, tokens, values = self._bias
            logits = logits.at[rows, tokens].add(values)
        for penalty in self._penalties:
            logits = penalty(logits, inputs)
        return logits


def _bias(rows: Sequence[Sampling]) -> tuple[mx.array, mx.array, mx.array] | None:
    flat = [(index, token, value) for index, row in enumerate(rows) for token, value in row.logit_bias]
    if not flat:
        return None
    indices, tokens, values = zip(*flat, strict=True)
    return mx.array(indices, dtype=mx.int32), mx.array(tokens, dtype=mx.int32), mx.array(values, dtype=mx.float32)


def _penalty(
    rows: Sequence[Sampling],
    histories: Sequence[Sequence[int]],
    apply: Callable[[mx.array, mx.array, mx.array, mx.array], mx.array],
    asked: Sequence[tuple[float, float, int]],
) -> _Penalty | None:
    """`asked`: strength, the strength that changes nothing, and the window, for each row."""
    using = [index for index, (strength, neutral, _) in enumerate(asked) if strength != neutral]
    if not using:
        return None
    recent = Recent([histories[index] for index in using], [asked[index][2] for index in using])
    return _Penalty(using, [asked[index][0] for index in using], recent, apply)


def _divisor(row: Sampling) -> float:
    return max(row.repetition_penalty, _WEAKEST_DIVISOR)


def _repeat(logits: mx.array, tokens: mx.array, inside: mx.array, strength: mx.array) -> mx.array:
    # A token that occurs twice is written twice, with the same value; outsiders stand in for the newest token.
    tokens = mx.where(inside, tokens, tokens[:, -1:])
    values = mx.take_along_axis(logits, tokens, axis=1)
    return mx.put_along_axis(logits, tokens, mx.where(values < 0, values * strength, values / strength), axis=1)


def _presence(logits: mx.array, tokens: mx.array, inside: mx.array, strength: mx.array) -> mx.array:
    tokens = mx.where(inside, tokens, tokens[:, -1:])
    return mx.put_along_axis(logits, tokens, mx.take_along_axis(logits, tokens, axis=1) - strength, axis=1)


def _frequency(logits: mx.array, tokens: mx.array, inside: mx.array, strength: mx.array) -> mx.array:
    rows = mx.arange(len(tokens), dtype=mx.int32)[:, None]
    return logits.at[rows, tokens].subtract(mx.where(inside, strength, 0.0))
