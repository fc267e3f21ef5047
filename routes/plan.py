"""From a prompt and what a request wants to the row that is submitted. Pure."""

from __future__ import annotations

from actors.errors import ContextOverBudget, InvalidRequest
from actors.generation.messages import Description, Submit
from actors.ids import IngressId, RequestId
from actors.settings import GenerationSettings
from routes.prompt import Prompt
from routes.sampling import SamplingDefaults, resolve_sampling
from routes.schema.generation import GenerationFields
from routes.tokenizer import pack_tokens

_MOST_TOKENS = 2**31 - 1


def plan_row(
    request_id: RequestId,
    ingress: IngressId,
    prompt: Prompt,
    wanted: GenerationFields,
    settings: GenerationSettings,
    defaults: SamplingDefaults,
    description: Description,
    exempt: tuple[int, ...] = (),
    traced: bool = False,
    coming: int = 0,
) -> Submit:
    """The rows of one request. `exempt`: tokens that XTC never excludes; `coming`: requests prepared beside this one.

    Raises:
        InvalidRequest: the prompt has no tokens, or one that the model does not know.
        ContextOverBudget: the prompt leaves no room for an answer.
    """
    tokens = prompt.tokens
    if not tokens:
        raise InvalidRequest("the prompt has no tokens")
    if max(tokens) >= description.vocabulary:
        raise InvalidRequest(f"prompt build failed: token {max(tokens)} is not in the model's vocabulary")
    return Submit(
        request_id=request_id,
        ingress=ingress,
        prompt=pack_tokens(tokens),
        max_tokens=_room(len(tokens), wanted.max_tokens or settings.max_tokens, description.context_limit),
        sampling=resolve_sampling(wanted.sampling, defaults, description.vocabulary, exempt, prompt.thinks),
        session=wanted.session,
        partition=wanted.partition,
        boundaries=prompt.boundaries,
        top_logprobs=wanted.top_logprobs,
        constraint=prompt.constraint,
        coming=coming,
        choices=wanted.choices,
        traced=traced,
    )


def _room(prompt_tokens: int, max_tokens: int | None, limit: int | None) -> int | None:
    if limit is None:
        return None if max_tokens is None else min(max_tokens, _MOST_TOKENS)
    room = limit - prompt_tokens
    if room < 1:
        raise ContextOverBudget(
            f"the prompt has {prompt_tokens} tokens, which leaves no room for an answer within the context limit "
            f"of {limit} tokens"
        )
    return room if max_tokens is None else min(max_tokens, room)
