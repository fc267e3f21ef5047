from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm import load
from mlx_lm.utils import load_model

from actors.models import gguf

HEADS, KV_HEADS = 4, 2
TO_GGUF = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
}


def permute(rows: mx.array, heads: int) -> mx.array:
    """Row order of a GGUF file, spelled out: new row 2i of a head is its old row i, new row 2i+1 its old half+i."""
    size = rows.shape[0] // heads
    order = [
        head * size + (pair + (size // 2) * second)
        for head in range(heads)
        for pair in range(size // 2)
        for second in range(2)
    ]
    return rows[mx.array(order)]


def gguf_name(name: str) -> str:
    for ours, theirs in TO_GGUF.items():
        name = name.replace(ours, theirs)
    return name.replace("model.layers.", "blk.")


def metadata(vocabulary: int = 257) -> dict[str, Any]:
    numbers = {
        "embedding_length": 64,
        "feed_forward_length": 128,
        "block_count": 2,
        "context_length": 4096,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
    }
    special = {"bos": 0, "eos": 256, "padding": 256, "unknown": 0}
    letters = [chr(0x100 + number) for number in range(vocabulary - 2)]
    tokens = [*letters, letters[0] + letters[1], "<end>"]
    return {
        "general.architecture": "llama",
        **{f"llama.{name}": mx.array(value, mx.uint32) for name, value in numbers.items()},
        **{f"tokenizer.ggml.{name}_token_id": mx.array(value, mx.uint32) for name, value in special.items()},
        "llama.attention.layer_norm_rms_epsilon": mx.array(1e-5, mx.float32),
        "llama.rope.freq_base": mx.array(10000.0, mx.float32),
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [f"{letters[0]} {letters[1]}"],
        "tokenizer.ggml.token_type": mx.array([1] * (vocabulary - 1) + [3], mx.int32),
        "tokenizer.chat_template": "{{ messages[0].content }}",
    }


@pytest.fixture
def source(tmp_path: Path, tiny: Callable[[str], Path]) -> Path:
    """The tiny llama as a GGUF file."""
    weights = {}
    for name, value in mx.load(str(tiny("llama") / "model.safetensors")).items():  # type: ignore[union-attr]
        heads = HEADS if ".q_proj." in name else KV_HEADS if ".k_proj." in name else None
        weights[gguf_name(name)] = permute(value, heads) if heads else value
    path = tmp_path / "tiny.gguf"
    mx.save_gguf(str(path), weights, metadata())
    return path


def test_a_converted_model_computes_what_the_original_did(
    source: Path, tmp_path: Path, tiny: Callable[[str], Path]
) -> None:
    folder = tmp_path / "converted"
    folder.mkdir()
    gguf.convert(source, folder, "fp32")
    converted, config = load_model(folder)
    original, _ = load_model(tiny("llama"))
    tokens = mx.array([[1, 5, 250, 17, 3]])
    np.testing.assert_array_equal(np.array(converted(tokens)), np.array(original(tokens)))
    assert config["rope_theta"] == 10000.0
    assert config["rms_norm_eps"] == 1e-5
    assert config["tie_word_embeddings"] is True


def test_a_converted_folder_loads_with_its_tokenizer_and_template(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "converted"
    folder.mkdir()
    gguf.convert(source, folder, "fp32")
    _, tokenizer = load(str(folder))[:2]
    assert tokenizer.eos_token_ids == {256}
    assert tokenizer.apply_chat_template([{"role": "user", "content": "<end>"}]) == [256]
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation == {"bos_token_id": 0, "eos_token_id": 256, "pad_token_id": 256}


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    mx.save_gguf(str(path), {"a": mx.zeros((32,))}, {"general.architecture": "mamba"})
    with pytest.raises(ValueError, match=r"other\.gguf holds a mamba model, not a llama one"):
        gguf.convert(path, tmp_path, "fp32")


@pytest.mark.parametrize("heads", [1, 2, 3, 4])
def test_unpermuting_undoes_the_row_order_of_a_gguf_file(heads: int) -> None:
    rows = mx.arange(heads * 8 * 3).reshape(heads * 8, 3)
    assert gguf.unpermute(permute(rows, heads), heads).tolist() == rows.tolist()
    if heads * 8 > 4:
        assert permute(rows, heads).tolist() != rows.tolist()


def test_packed_rows_are_unpermuted_like_plain_ones() -> None:
    plain = mx.random.normal((16, 64), key=mx.random.key(1))
    packed = mx.quantize(permute(plain, 2), group_size=32, bits=4)
    moved = [gguf.unpermute(part, 2) for part in packed]
    expected = mx.quantize(plain, group_size=32, bits=4)
    for part, wanted in zip(moved, expected, strict=True):
        assert part.tolist() == wanted.tolist()


def test_only_query_and_key_projections_are_unpermuted() -> None:
    rows = mx.arange(16).reshape(16, 1)
    for name, heads in {"q_proj": 4, "k_proj": 2}.items():
        found = gguf.unpermute_projection(f"model.layers.0.self_attn.{name}.weight", rows, heads=4, kv_heads=2)
        assert found.tolist() == gguf.unpermute(rows, heads).tolist()
    untouched = gguf.unpermute_projection("model.layers.0.self_attn.v_proj.weight", rows, heads=4, kv_heads=2)
    assert untouched.tolist() == rows.tolist()


def test_tensor_names_become_those_of_the_hub() -> None:
    assert gguf.hub_name("blk.3.attn_q.scales") == "model.layers.3.self_attn.q_proj.scales"
    assert gguf.hub_name("token_embd.weight") == "model.embed_tokens.weight"
    assert gguf.hub_name("output.weight") == "lm_head.weight"
    assert gguf.rename({"rope_freqs.weight": mx.zeros(1)}) == {}
    for unknown in ("blk.0.attn_sinks.weight", "vision.weight", "weight"):
        with pytest.raises(ValueError, match="unknown tensor"):
            gguf.hub_name(unknown)


def quantized_weights() -> dict[str, mx.array]:
    weights = {"model.norm.weight": mx.ones((64,))}
    for layer, bits in {"model.embed_tokens": 8, "a": 4, "b": 4}.items():
        plain = mx.random.normal((8, 64), key=mx.random.key(bits)).astype(mx.float16)
        parts = zip(("weight", "scales", "biases"), mx.quantize(plain, group_size=32, bits=bits), strict=True)
        weights |= {f"{layer}.{kind}": value for kind, value in parts}
    return weights


def test_the_bits_of_a_layer_are_read_from_its_shape() -> None:
    bits = gguf.layer_bits(quantized_weights())
    assert bits == {"model.embed_tokens": 8, "a": 4, "b": 4}
    assert gguf.quantization(bits) == {
        "group_size": 32,
        "bits": 4,
        "mode": "affine",
        "model.embed_tokens": {"group_size": 32, "bits": 8},
    }


def test_dequantizing_gives_float32_and_no_scales() -> None:
    weights = quantized_weights()
    plain = gguf.dequantize(weights, gguf.layer_bits(weights))
    assert set(plain) == {"model.norm.weight", "model.embed_tokens.weight", "a.weight", "b.weight"}
    assert {value.dtype for value in plain.values()} == {mx.float32}
    original = mx.random.normal((8, 64), key=mx.random.key(8)).astype(mx.float16).astype(mx.float32)
    assert mx.allclose(plain["model.embed_tokens.weight"], original, rtol=0, atol=0.02).item()


def test_a_quantized_variant_holds_one_floating_type() -> None:
    weights = gguf.one_dtype(quantized_weights())
    assert {value.dtype for value in weights.values()} == {mx.float16, mx.uint32}


def test_a_converted_file_names_every_parameter_of_the_model(source: Path, tmp_path: Path) -> None:
    gguf.convert(source, tmp_path, "fp32")
    model, _ = load_model(tmp_path, strict=False)
    parameters = {name for name, _ in tree_flatten(model.parameters())}
    assert parameters == set(mx.load(str(tmp_path / "model.safetensors")))
