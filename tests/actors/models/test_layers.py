from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache
from mlx_lm.utils import load_model

from actors.models.layers import Attention, Recurrent, read_layers

LLAMA = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}


def read(**changes: Any) -> Any:
    config = LLAMA | changes
    return read_layers({key: value for key, value in config.items() if value is not None})


def test_a_plain_model_keeps_keys_and_values_in_every_layer() -> None:
    layers = read()
    assert layers.attention == (Attention(8, 64, 2 * 2 * 64),) * 3
    assert (layers.recurrent, layers.context_window, layers.experts) == ((), 4096, 0)


def test_without_a_count_of_its_own_the_keys_have_as_many_heads_as_the_queries() -> None:
    assert read(num_key_value_heads=None).attention[0].values == 2 * 8 * 64


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 9}, [9, None, 9]),
        ({"layer_types": ["chunked_attention", "full_attention"], "attention_chunk_size": 7}, [7, None, 7]),
        ({"sliding_window_pattern": 3, "sliding_window": 9}, [9, 9, None]),
        ({"sliding_window_pattern": "LG", "sliding_window": 9}, [9, None, 9]),
        ({"model_type": "gpt_oss"}, [128, None, 128]),
        # mlx-lm's own models of these kinds ignore a window without a pattern.
        ({"sliding_window": 9}, [None, None, None]),
    ],
)
def test_windows_are_found_where_the_family_writes_them(changes: dict[str, Any], windows: list[int | None]) -> None:
    assert [layer.window for layer in read(**changes).attention] == windows


def test_wide_layers_may_have_heads_of_their_own() -> None:
    narrow, wide, _ = read(
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=9,
        head_dim=64,
        global_head_dim=128,
        num_global_key_value_heads=1,
    ).attention
    assert (narrow.head_dim, narrow.values) == (64, 256)
    assert (wide.head_dim, wide.values) == (128, 256)


def test_layers_that_borrow_their_caches_keep_nothing() -> None:
    assert len(read(num_kv_shared_layers=2).attention) == 1


def test_latent_attention_keeps_the_latent_and_the_turned_part() -> None:
    latent = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
    assert read(model_type="deepseek_v3", **latent).attention[0] == Attention(8, 192, 576)
    # This one expands them before it keeps them: 8 heads of 192 for the keys and 128 for the values.
    assert read(model_type="deepseek_v2", **latent).attention[0] == Attention(8, 192, 8 * (192 + 128))


def test_linear_attention_keeps_a_state_of_fixed_size() -> None:
    layers = read(
        num_hidden_layers=4,
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=16,
        linear_value_head_dim=8,
        linear_conv_kernel_dim=4,
    )
    # 4 heads x 8 x 16 numbers of 4 bytes, and 3 columns of 2 x 2 x 16 + 4 x 8 numbers of 2 bytes.
    assert layers.recurrent == (Recurrent(2048 + 3 * 96 * 2),) * 3
    assert len(layers.attention) == 1


def test_state_space_models_of_both_kinds_keep_a_state() -> None:
    second = {"num_attention_heads": None, "num_heads": 8, "head_dim": 16, "state_size": 16, "conv_kernel": 4}
    # 8 x 16 x 16 numbers of 4 bytes, and 3 columns of 128 + 2 x 16 numbers of 2 bytes.
    assert read(**second, n_groups=1).recurrent == (Recurrent(8192 + 3 * 160 * 2),) * 3
    first = {"num_attention_heads": None, "intermediate_size": 128, "state_size": 16, "conv_kernel": 4}
    assert read(**first).recurrent == (Recurrent(8192 + 3 * 128 * 2),) * 3


def test_letters_and_lists_name_the_layers_too() -> None:
    letters = read(hybrid_override_pattern="M-*M", mamba_num_heads=2, mamba_head_dim=8, ssm_state_size=4, n_groups=1)
    assert (len(letters.attention), len(letters.recurrent)) == (1, 2)
    listed = read(full_attn_idxs=[1], conv_L_cache=3)
    assert len(listed.attention) == 1
    assert listed.recurrent == (Recurrent(2 * 512 * 2),) * 2


def test_a_mixture_says_how_many_experts_it_uses() -> None:
    layers = read(num_local_experts=8, num_experts_per_tok=2)
    assert (layers.experts, layers.experts_per_token) == (8, 2)


def test_the_text_part_of_a_model_of_many_senses_counts() -> None:
    layers = read_layers({"model_type": "gemma3", "text_config": LLAMA | {"model_type": "gemma3_text"}})
    assert len(layers.attention) == 3


def test_a_configuration_without_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="num_hidden_layers"):
        read(num_hidden_layers=None)


@pytest.mark.parametrize("kind", ["llama", "sliding", "hybrid", "mamba", "moe"])
def test_the_layers_are_those_that_mlx_lm_makes_caches_for(tiny: Callable[[str], Path], kind: str) -> None:
    folder = tiny(kind)
    layers = read_layers(json.loads((folder / "config.json").read_text()))
    model: Any = load_model(folder, lazy=True)[0]
    caches: Any = model.make_cache() if hasattr(model, "make_cache") else [KVCache() for _ in model.layers]
    windows = [getattr(cache, "max_size", None) for cache in caches if isinstance(cache, KVCache | RotatingKVCache)]
    assert [layer.window for layer in layers.attention] == windows
    assert len(layers.recurrent) == sum(isinstance(cache, ArraysCache) for cache in caches)
