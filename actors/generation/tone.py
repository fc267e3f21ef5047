"""The HLG tone curve: a sampler's temperature bent into a shoulder above and a toe below. Vectorized over rows.

With l the log-probabilities, mu = max(l) - pivot_offset, z = l - mu, m = 1 / temperature and w the width: the middle
(|z| < w) is m*z; the shoulder is m*w + m*b*ln(1 + (z - w) / b) with b its softness; the toe mirrors it below with its
own. A softness of 0 makes the row a plain tempered one.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from actors.generation.messages import ToneCurve


class Tone:
    """Curves of the rows that draw; None draws by temperature, and so does a curve without softness.

    Args:
        curves: in row order.
    """

    def __init__(self, curves: Sequence[ToneCurve | None]) -> None:
        bent = [(index, curve) for index, curve in enumerate(curves) if curve and curve.shoulder > 0 and curve.toe > 0]
        self._rows = mx.array([index for index, _ in bent], dtype=mx.int32) if bent else None
        self._width = _column([curve.width for _, curve in bent])
        self._shoulder = _column([curve.shoulder for _, curve in bent])
        self._toe = _column([curve.toe for _, curve in bent])
        self._offset = _column([curve.pivot_offset for _, curve in bent])

    def __call__(self, logits: mx.array, tempered: mx.array, temperature: mx.array) -> mx.array:
        """The curve's logits for rows that have one, `tempered` for the others.

        Args:
            logits: [rows, vocabulary], filtered tokens at minus infinity.
            tempered: the same over the temperature.
            temperature: [rows, 1], above 0.
        """
        if self._rows is None:
            return tempered
        logits, temperature = logits[self._rows], temperature[self._rows]
        # Differences of logits are differences of log-probabilities, so the pivot needs no normalization.
        z = logits - (mx.max(logits, axis=-1, keepdims=True) - self._offset)
        above = self._width + self._shoulder * mx.log1p(mx.maximum(z - self._width, 0) / self._shoulder)
        below = -self._width - self._toe * mx.log1p(mx.maximum(-z - self._width, 0) / self._toe)
        curve = mx.where(z >= self._width, above, mx.where(z < -self._width, below, z)) / temperature
        tempered[self._rows] = curve
        return tempered


def _column(values: Sequence[float]) -> mx.array:
    return mx.array(list(values), dtype=mx.float32)[:, None]
