from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model, quantize_model

from actors.generation import head, kv
from actors.generation.batch import DecodeBatch
from actors.generation.messages import Sampling, Submit
from actors.generation.row import Row
from actors.ids import IngressId, RequestId
from tests.conftest import KINDS
from tests.support import checkpoints

PROMPT = [5, 17, 3, 99, 42, 8, 61]


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, tiny: Callable[[str], Path]) -> Any:
    return load_model(tiny(request.param))[0]


def logits(model: Any) -> np.ndarray:
    return np.array(model(mx.array([PROMPT]), cache=kv.new(model)))


def test_a_pass_gives_the_last_logits_and_no_others(model: Any) -> None:
    before, names = logits(model), [name for name, _ in tree_flatten(model.parameters())]
    assert head.last_only(model)
    after = logits(model)
    assert after.shape == (1, 1, before.shape[-1])
    assert np.allclose(after[:, 0], before[:, -1], atol=1e-4)
    assert [name for name, _ in tree_flatten(model.parameters())] == names


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("quantized", [True, False])
def test_heads_of_every_kind_are_found(tied: bool, quantized: bool, tmp_path: Path) -> None:
    folder = checkpoints.tiny_llama(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": tied}))
    model, config = load_model(folder, strict=False)
    if quantized:
        model, _ = quantize_model(model, config, 32, 8)
    before = logits(model)
    assert head.last_only(model)
    assert np.allclose(logits(model)[:, 0], before[:, -1], atol=1e-4)


def test_a_model_whose_head_is_not_found_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(checkpoints.tiny_llama(tmp_path))[0]
    before = logits(model)
    monkeypatch.setattr(head, "_heads", lambda model: iter(()))
    assert not head.last_only(model)
    assert np.array_equal(logits(model), before)


def test_what_only_has_the_name_of_a_head_is_left_alone(tmp_path: Path) -> None:
    model: Any = load_model(checkpoints.tiny_llama(tmp_path))[0]
    for layer in model.layers:
        layer.self_attn.output = layer.self_attn.pop("o_proj")
        layer.self_attn.o_proj = layer.self_attn.output
    before = logits(model)
    assert not head.last_only(model)
    assert np.array_equal(logits(model), before)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=1.0, top_p=0.9, seed=11),
        Sampling(repetition_penalty=1.5, logit_bias=((7, 4.0),)),
    ],
)
def test_a_prompt_computed_with_its_first_token_goes_on_alike(sampling: Sampling, tiny: Callable[[str], Path]) -> None:
    model = load_model(tiny("llama"))[0]
    assert head.last_only(model)
    answers = []
    for at_once in (False, True):
        one = Row(Submit(RequestId("one"), IngressId("door"), b"", None, sampling), list(PROMPT))
        caches = kv.new(model)
        batch = DecodeBatch(model)
        if at_once:
            one.caches = caches
            batch.begin([one])
        else:
            mx.eval(model(mx.array([PROMPT[:-1]]), cache=caches))
            one.computed = len(PROMPT) - 1
            batch.add([one], caches, merged=False)
            batch.advance()
        tokens = []
        for _ in range(12):
            for _, token, _ in batch.advance():
                one.tokens.append(token)
                tokens.append(token)
        assert one.computed == len(PROMPT) + 12
        answers.append(tokens)
    assert answers[0] == answers[1] and len(answers[0]) == 12


def test_prompts_of_different_lengths_computed_with_their_first_tokens_go_on_alike(tiny: Callable[[str], Path]) -> None:
    model = load_model(tiny("llama"))[0]
    assert head.last_only(model)
    prompts = [PROMPT, PROMPT[:3], PROMPT[1:6] * 4, PROMPT[2:3]]
    known = 2  # of the third, as after a stored prefix
    answers = []
    for together in (False, True):
        rows = [
            Row(Submit(RequestId(str(at)), IngressId("door"), b"", None, Sampling()), list(prompt))
            for at, prompt in enumerate(prompts)
        ]
        for row in rows:
            row.caches = kv.new(model)
        model(mx.array([prompts[2][:known]]), cache=rows[2].caches)
        rows[2].computed = known
        batches = [DecodeBatch(model) for _ in ([rows] if together else rows)]
        for batch, members in zip(batches, [rows] if together else [[row] for row in rows], strict=True):
            batch.begin(members)
            for _ in range(8):
                for row, token, _ in batch.advance():
                    row.tokens.append(token)
        assert [row.computed for row in rows] == [len(prompt) + 8 for prompt in prompts]
        answers.append([row.tokens for row in rows])
    assert answers[0] == answers[1]
