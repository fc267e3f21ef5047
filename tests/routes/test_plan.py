import pytest

from actors.errors import ContextOverBudget, InvalidRequest
from actors.generation.messages import Submit
from actors.ids import IngressId, RequestId
from actors.settings import GenerationSettings, ToneSettings
from routes.plan import plan_row
from routes.prompt import Prompt
from routes.reasoning.plain import PlainSplitter
from routes.sampling import SamplingDefaults
from routes.schema.generation import read_generation
from tests.routes.harness import unpack
from tests.routes.scripted_generation import description


def plan(
    prompt: list[int], limit: int | None = None, default_max_tokens: int | None = None, **fields: object
) -> Submit:
    return plan_row(
        RequestId("r"),
        IngressId("i"),
        Prompt(prompt, PlainSplitter),
        read_generation(fields, {}),
        GenerationSettings.model_validate({"max_tokens": default_max_tokens}),
        SamplingDefaults(0, 0, 0, ToneSettings()),
        description(context_limit=limit),
    )


def test_a_row_carries_its_tokens_and_its_session() -> None:
    row = plan([1, 2, 257], session_id="s", max_tokens=5)
    assert unpack(row.prompt) == [1, 2, 257]
    assert (row.session, row.max_tokens, row.request_id, row.ingress) == ("s", 5, "r", "i")


def test_without_any_limit_a_row_runs_until_its_end_token() -> None:
    assert plan([1]).max_tokens is None


def test_the_servers_default_max_tokens_applies_where_the_request_says_nothing() -> None:
    assert plan([1], default_max_tokens=9).max_tokens == 9
    assert plan([1], default_max_tokens=9, max_tokens=20).max_tokens == 20


def test_max_tokens_is_cut_to_the_room_left() -> None:
    assert plan([1] * 10, limit=16, max_tokens=100).max_tokens == 6
    assert plan([1] * 10, limit=16, max_tokens=3).max_tokens == 3
    assert plan([1] * 10, limit=16).max_tokens == 6
    assert plan([1] * 15, limit=16).max_tokens == 1


@pytest.mark.parametrize("length", [16, 17, 400])
def test_a_prompt_that_leaves_no_room_is_refused_with_the_numbers(length: int) -> None:
    with pytest.raises(ContextOverBudget, match=rf"{length} tokens.* 16 tokens"):
        plan([1] * length, limit=16)


def test_an_enormous_max_tokens_stays_a_number_the_engine_can_count_to() -> None:
    assert plan([1], max_tokens=2**53).max_tokens == 2**31 - 1


def test_a_prompt_without_tokens_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no tokens"):
        plan([])


def test_a_token_the_model_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="token 258 is not in the model's vocabulary"):
        plan([1, 258])
