"""Turn a llama-family GGUF file into a checkpoint folder that mlx-lm loads.

MLX reads GGUF by itself: Q4_1 tensors arrive as 4-bit groups of 32, Q8_0 tensors as 8-bit groups of 32. What is left
is naming, the row order of the query and key projections, the tokenizer and the JSON files.
`mlx` and `tokenizers` are imported inside the functions, so that importing this module stays cheap.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    import mlx.core as mx
    import tokenizers

Variant = Literal["fp32", "quantized"]
"""`fp32` dequantizes everything to float32; `quantized` keeps the file's own 4 and 8 bits."""

GROUP_SIZE = 32
_SPECIAL_TOKEN = 3
_TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert(source: Path, folder: Path, variant: Variant) -> None:
    """Write config.json, model.safetensors, tokenizer and generation files into `folder`. Blocks for seconds.

    Raises:
        ValueError: the file holds a tensor or an architecture that this module does not know.
    """
    import mlx.core as mx

    # The CPU is enough, and the GPU may belong to somebody else now.
    with mx.stream(mx.cpu):
        loaded = cast(tuple[dict[str, Any], dict[str, Any]], mx.load(str(source), return_metadata=True))
        tensors, metadata = loaded
        if metadata["general.architecture"] != "llama":
            raise ValueError(f"{source.name} holds a {metadata['general.architecture']} model, not a llama one")
        weights = rename(tensors)
        heads, kv_heads = _int(metadata, "llama.attention.head_count"), _int(metadata, "llama.attention.head_count_kv")
        weights = {name: unpermute_projection(name, rows, heads, kv_heads) for name, rows in weights.items()}
        bits = layer_bits(weights)
        weights = dequantize(weights, bits) if variant == "fp32" else one_dtype(weights)
        mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    config = model_config(metadata, tied="lm_head.weight" not in weights)
    if variant == "fp32":
        config["torch_dtype"] = "float32"
    else:
        config |= {"torch_dtype": "float16", "quantization": quantization(bits)}
    _write(folder / "config.json", config)
    _write(folder / "generation_config.json", generation_config(metadata))
    _write(folder / "tokenizer_config.json", tokenizer_config(metadata))
    tokenizer(metadata).save(str(folder / "tokenizer.json"))


def rename(tensors: dict[str, mx.array]) -> dict[str, mx.array]:
    """llama.cpp's tensor names to those of the Hugging Face llama; rope tables are recomputed, so they go."""
    return {hub_name(name): value for name, value in tensors.items() if not name.startswith("rope_freqs.")}


def hub_name(name: str) -> str:
    """`blk.3.attn_q.scales` -> `model.layers.3.self_attn.q_proj.scales`. Raises ValueError for an unknown name."""
    match name.split("."):
        case ["blk", number, part, kind] if part in _LAYER_NAMES:
            return f"model.layers.{number}.{_LAYER_NAMES[part]}.{kind}"
        case [part, kind] if part in _TOP_NAMES:
            return f"{_TOP_NAMES[part]}.{kind}"
    raise ValueError(f"unknown tensor {name}")


def unpermute_projection(name: str, rows: mx.array, heads: int, kv_heads: int) -> mx.array:
    """Undo llama.cpp's row order where it applies: query and key projections."""
    if ".q_proj." in name:
        return unpermute(rows, heads)
    if ".k_proj." in name:
        return unpermute(rows, kv_heads)
    return rows


def unpermute(rows: mx.array, heads: int) -> mx.array:
    """Rows in rotary pairs (0, half, 1, half + 1, …) of each head, back to first halves, then second halves.

    Only rows move, so packed weights, scales and biases are treated alike.
    """
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, half, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def layer_bits(weights: dict[str, mx.array]) -> dict[str, int]:
    """Bits of every quantized layer, from the shape of its packed rows."""
    names = [name.removesuffix(".scales") for name in weights if name.endswith(".scales")]
    packed = {name: weights[f"{name}.weight"].shape[-1] for name in names}
    groups = {name: weights[f"{name}.scales"].shape[-1] for name in names}
    return {name: 32 * packed[name] // (GROUP_SIZE * groups[name]) for name in names}


def dequantize(weights: dict[str, mx.array], bits: dict[str, int]) -> dict[str, mx.array]:
    """All weights in float32."""
    import mlx.core as mx

    plain = {}
    for name, value in weights.items():
        layer, _, kind = name.rpartition(".")
        if layer not in bits:
            plain[name] = value.astype(mx.float32)
        elif kind == "weight":
            scales, biases = (weights[f"{layer}.{part}"].astype(mx.float32) for part in ("scales", "biases"))
            plain[name] = mx.dequantize(value, scales, biases, group_size=GROUP_SIZE, bits=bits[layer])
    return plain


def one_dtype(weights: dict[str, mx.array]) -> dict[str, mx.array]:
    """Float32 norms to float16, the type of the scales: a mixture would compute everything in float32."""
    import mlx.core as mx

    return {name: value.astype(mx.float16) if value.dtype == mx.float32 else value for name, value in weights.items()}


def quantization(bits: dict[str, int]) -> dict[str, Any]:
    """The `quantization` entry of config.json: the commonest width, and each layer that differs."""
    common = max(set(bits.values()), key=list(bits.values()).count)
    odd = {name: {"group_size": GROUP_SIZE, "bits": width} for name, width in bits.items() if width != common}
    return {"group_size": GROUP_SIZE, "bits": common, "mode": "affine", **odd}


def model_config(metadata: dict[str, Any], *, tied: bool) -> dict[str, Any]:
    """config.json. `rope_theta` stands at the top, the only place where mlx-lm's llama looks for it."""
    hidden, heads = _int(metadata, "llama.embedding_length"), _int(metadata, "llama.attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": _int(metadata, "llama.feed_forward_length"),
        "num_hidden_layers": _int(metadata, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _int(metadata, "llama.attention.head_count_kv"),
        "head_dim": hidden // heads,
        "max_position_embeddings": _int(metadata, "llama.context_length"),
        # Stored as float32, so that 1e-5 comes back with noise.
        "rms_norm_eps": float(f"{metadata['llama.attention.layer_norm_rms_epsilon'].item():.6g}"),
        "rope_theta": metadata["llama.rope.freq_base"].item(),
        "rope_scaling": None,
        "hidden_act": "silu",
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": tied,
        "bos_token_id": _int(metadata, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _int(metadata, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": _int(metadata, "tokenizer.ggml.padding_token_id"),
    }


def generation_config(metadata: dict[str, Any]) -> dict[str, Any]:
    """generation_config.json: the special tokens; the file states no sampling."""
    ids = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    return {key: _int(metadata, f"tokenizer.ggml.{name}_token_id") for key, name in ids.items()}


def tokenizer_config(metadata: dict[str, Any]) -> dict[str, Any]:
    """tokenizer_config.json with the chat template."""
    tokens = metadata["tokenizer.ggml.tokens"]
    ids = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{key: tokens[_int(metadata, f"tokenizer.ggml.{name}_token_id")] for key, name in ids.items()},
        "model_max_length": _int(metadata, "llama.context_length"),
        "clean_up_tokenization_spaces": False,
        "add_prefix_space": False,
        "chat_template": metadata["tokenizer.chat_template"],
    }


def tokenizer(metadata: dict[str, Any]) -> tokenizers.Tokenizer:
    """Byte-level BPE that splits every digit off, as this model family was trained with."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    kinds = metadata["tokenizer.ggml.token_type"].tolist()
    built = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    built.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    built.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _SPECIAL_TOKEN]
    built.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return built


def _int(metadata: dict[str, Any], key: str) -> int:
    return int(metadata[key].item())


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
