"""From hidden states to unit vectors, as weighted sums over the positions of a text. Without MLX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from actors.models.embedding_card import Pooling

Floats = npt.NDArray[np.float32]

_TINY = 1e-12


def position_weights(lengths: Sequence[int], width: int, pooling: Pooling) -> Floats:
    """How much each position counts, as (rows, width); each row sums to 1, padding counts nothing.

    A sum may be taken in parts, so a text can be computed in chunks whatever its pooling.
    """
    places = np.arange(width)[None, :]
    ends = np.asarray(lengths)[:, None]
    match pooling:
        case "last":
            weights = places == ends - 1
        case "cls":
            weights = np.broadcast_to(places == 0, (len(lengths), width))
        case "mean":
            weights = (places < ends) / ends
    return weights.astype(np.float32)


def unit(vectors: Floats, dimensions: int) -> Floats:
    """The first `dimensions` numbers of each vector, brought to length 1. A vector of zeros stays one."""
    cut = vectors[:, :dimensions].astype(np.float64)
    lengths = np.linalg.norm(cut, axis=1, keepdims=True)
    return (cut / np.maximum(lengths, _TINY)).astype(np.float32)
