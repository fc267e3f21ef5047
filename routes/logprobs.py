"""The `logprobs` object of a choice, as mlx-lm's server writes it: by token id, with raw vocabulary pieces. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.generation.messages import Score


def logprobs_block(
    scored: Sequence[tuple[int, Score]], top: int, piece: Callable[[int], str]
) -> dict[str, list[dict[str, object]]]:
    """One entry a generated token.

    Args:
        scored: tokens and their scores.
        top: 0 gives each token's own log-probability; more gives the likeliest tokens, the best one merged in.
        piece: the vocabulary's own spelling of a token.
    """
    if not top:
        return {"content": [{"id": token, "logprob": score.logprob} for token, score in scored]}
    return {"content": [_entry(score, piece) for _, score in scored]}


def _entry(score: Score, piece: Callable[[int], str]) -> dict[str, object]:
    listed = [{"id": token, "token": piece(token), "logprob": value} for token, value in score.top]
    return {**listed[0], "top_logprobs": listed}
