"""The layers of a model as its memory sees them: what each one keeps of the tokens it has read. From config.json. Pure.

What counts is what mlx-lm's implementation keeps, so a window that it ignores is ignored here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]

_ATTENTION = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_COUNT = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH = ("hidden_size", "n_embd", "d_model", "dim")
_WINDOWS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", "moe_k")
_EXPANDED = ("deepseek_v2", "minicpm3", "youtu_llm")
"""Models with latent attention whose caches hold whole keys and values all the same."""
_PATTERNS = {"gemma3": (6, 512), "gemma3_text": (6, 512), "cohere2": (4, 4096), "gpt_oss": (2, 128)}
"""(pattern, window) that mlx-lm assumes where the configuration leaves them out."""
_LETTERS = {"M": "recurrent", "*": "full", "L": "sliding", "G": "full"}


@dataclass(frozen=True, slots=True)
class Attention:
    """A layer that keeps keys and values."""

    heads: int
    """Of the queries."""
    head_dim: int
    """Of queries and keys."""
    values: int
    """Numbers kept of each token."""
    window: int | None = None
    """Tokens kept at most; None keeps all."""


@dataclass(frozen=True, slots=True)
class Recurrent:
    """A layer whose state does not grow."""

    size: int
    """Its bytes."""


@dataclass(frozen=True, slots=True)
class Layers:
    """All layers that keep anything."""

    attention: tuple[Attention, ...]
    """In order."""
    recurrent: tuple[Recurrent, ...]
    """In order."""
    context_window: int | None
    """Tokens the model was made for; None when the configuration does not say."""
    experts: int
    """Of a mixture layer; 0 for a dense model."""
    experts_per_token: int
    """Of these, used for each token."""


def read_layers(config: Config) -> Layers:
    """What a config.json says of the layers.

    Raises:
        ValueError: it names neither layers nor widths.
    """
    text = {**config, **config["text_config"]} if isinstance(config.get("text_config"), dict) else dict(config)
    kinds = _kinds(text)
    # Later layers may borrow the keys and values of earlier ones.
    kinds = kinds[: len(kinds) - (_whole(text, ("num_kv_shared_layers",)) or 0)]
    attention = tuple(_attention(text, kind) for kind in kinds if kind in ("full", "sliding"))
    recurrent = tuple(Recurrent(_state_bytes(text)) for kind in kinds if kind == "recurrent")
    experts = _whole(text, _EXPERTS) or 0
    chosen = min(_whole(text, _CHOSEN) or experts, experts)
    return Layers(attention, recurrent, _whole(text, _WINDOWS), experts, chosen)


def _whole(config: Config, names: Sequence[str]) -> int | None:
    """The first of these keys that holds a positive whole number."""
    found = (config.get(name) for name in names)
    return next((value for value in found if type(value) is int and value > 0), None)


def _needed(config: Config, names: Sequence[str]) -> int:
    value = _whole(config, names)
    if value is None:
        raise ValueError(f"the configuration holds none of {', '.join(names)}")
    return value


def _kinds(config: Config) -> list[str]:
    """`full`, `sliding`, `recurrent` or `none` for each layer."""
    for key in ("layer_types", "layers_block_type", "block_types"):
        if isinstance(named := config.get(key), list):
            words = [_kind(str(word)) for word in named]
            count = _whole(config, _COUNT) or len(words)
            return [words[index % len(words)] for index in range(count)] if words else []
    if isinstance(letters := config.get("hybrid_override_pattern"), str):
        return [_LETTERS.get(letter, "none") for letter in letters]
    count = _needed(config, _COUNT)
    return [_counted_kind(config, index) for index in range(count)]


def _kind(word: str) -> str:
    if any(part in word for part in ("sliding", "chunked", "local")):
        return "sliding"
    if any(part in word for part in ("linear", "mamba", "conv", "recurrent", "rwkv")):
        return "recurrent"
    return "none" if word in ("mlp", "moe") else "full"


def _counted_kind(config: Config, index: int) -> str:
    """The kind of a layer that is told by its number."""
    if isinstance(full := config.get("full_attn_idxs"), list):
        return "full" if index in full else "recurrent"
    if "linear_num_value_heads" in config:
        return "full" if (index + 1) % (_whole(config, ("full_attention_interval",)) or 4) == 0 else "recurrent"
    if (period := _whole(config, ("attn_layer_period",))) is not None:
        return "full" if index % period == config.get("attn_layer_offset", 0) else "recurrent"
    if "state_size" in config:
        return "recurrent"
    pattern = config.get("sliding_window_pattern") or _default(config)[0]
    if isinstance(pattern, str):
        return _LETTERS.get(pattern[index % len(pattern)], "full")
    if isinstance(pattern, int) and pattern > 1:
        return "full" if (index + 1) % pattern == 0 else "sliding"
    return "full"


def _default(config: Config) -> tuple[int | None, int | None]:
    return _PATTERNS.get(str(config.get("model_type")), (None, None))


def _attention(config: Config, kind: str) -> Attention:
    heads = _needed(config, _ATTENTION)
    head_dim = _whole(config, ("head_dim",)) or _needed(config, _WIDTH) // heads
    kv_heads = _whole(config, ("num_key_value_heads", "num_kv_heads", "n_head_kv")) or heads
    if kind == "full":  # some models have larger heads in the layers that see everything
        head_dim = _whole(config, ("global_head_dim",)) or head_dim
        kv_heads = _whole(config, ("num_global_key_value_heads",)) or kv_heads
    window = None
    if kind == "sliding":
        window = _whole(config, ("sliding_window", "attention_chunk_size")) or _default(config)[1]
    if (latent := _whole(config, ("kv_lora_rank",))) is None:
        return Attention(heads, head_dim, 2 * kv_heads * head_dim, window)
    turned = _whole(config, ("qk_rope_head_dim",)) or 0
    plain = _whole(config, ("qk_nope_head_dim",)) or 0
    if config.get("model_type") in _EXPANDED:
        values = heads * (plain + turned + (_whole(config, ("v_head_dim",)) or plain))
    else:
        values = latent + turned
    return Attention(heads, plain + turned or head_dim, values, window)


def _state_bytes(config: Config) -> int:
    """State of one recurrent layer: the recurrence in float32, the window of its convolution in half precision."""
    if (value_heads := _whole(config, ("linear_num_value_heads",))) is not None:
        value_dim = _needed(config, ("linear_value_head_dim",))
        key_dim = _needed(config, ("linear_key_head_dim",))
        width = 2 * _needed(config, ("linear_num_key_heads",)) * key_dim + value_heads * value_dim
        return value_heads * value_dim * key_dim * 4 + _convolution(config, "linear_conv_kernel_dim", width)
    if "conv_L_cache" in config:
        return _convolution(config, "conv_L_cache", _needed(config, _WIDTH))
    state = _whole(config, ("ssm_state_size", "mamba_d_state", "state_size")) or 0
    kernel = next((name for name in ("conv_kernel", "mamba_d_conv", "d_conv") if name in config), "conv_kernel")
    heads = _whole(config, ("mamba_num_heads", "mamba_n_heads")) or (_whole(config, ("num_heads",)) if state else None)
    if heads is None:
        width = _whole(config, ("intermediate_size", "d_inner")) or 0
        return width * state * 4 + _convolution(config, kernel, width)
    inner = heads * (_whole(config, ("mamba_head_dim", "mamba_d_head", "head_dim")) or 0)
    groups = _whole(config, ("n_groups", "mamba_n_groups")) or 1
    return inner * state * 4 + _convolution(config, kernel, inner + 2 * groups * state)


def _convolution(config: Config, kernel: str, width: int) -> int:
    return ((_whole(config, (kernel,)) or 1) - 1) * width * 2
