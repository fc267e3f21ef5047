"""Tiny random checkpoints, one for each kind of cache that mlx-lm has. Seeded, in float32, servable like any other.

Weights are scaled up from what training would start with, so that greedy answers vary instead of repeating a token.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import _get_classes
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from actors.models import starter

TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}</{{ message.role }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
END = "<end>"
VOCABULARY = 257
"""256 bytes and the end token."""


def tiny_llama(folder: Path) -> Path:
    """Full attention in every layer."""
    return write(folder, _llama(VOCABULARY))


def tiny_sliding(folder: Path) -> Path:
    """Sliding windows of 16 tokens in two layers of three, full attention in the third (gemma3 text)."""
    config = _llama(VOCABULARY) | {
        "model_type": "gemma3_text",
        "num_hidden_layers": 3,
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        "sliding_window": 16,
        "sliding_window_pattern": 3,
        "rope_local_base_freq": 10000.0,
    }
    return write(folder, config)


def tiny_hybrid(folder: Path) -> Path:
    """Linear attention in three layers of four, full attention in the fourth (qwen3_5)."""
    text = _llama(VOCABULARY) | {
        "model_type": "qwen3_5_text",
        "num_hidden_layers": 4,
        "head_dim": 16,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "full_attention_interval": 4,
        "rope_parameters": {
            "type": "default",
            "mrope_section": [2, 1, 1],
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
        },
    }
    return write(folder, {"model_type": "qwen3_5", "text_config": text, "vocab_size": VOCABULARY})


def tiny_mamba(folder: Path) -> Path:
    """State space layers only (mamba2)."""
    config = {
        "model_type": "mamba2",
        "num_heads": 8,
        "head_dim": 16,
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "state_size": 16,
        "num_hidden_layers": 2,
        "layer_norm_epsilon": 1e-5,
        "conv_kernel": 4,
        "n_groups": 1,
        "use_bias": False,
        "use_conv_bias": True,
        "tie_word_embeddings": True,
        "time_step_limit": [0.0, 100.0],
        "time_step_rank": 8,
        "ssm_state_size": 16,
        "max_position_embeddings": 4096,
        "residual_in_fp32": False,
        "rms_norm": True,
        "chunk_size": 64,
        "expand": 2,
    }
    return write(folder, config)


def tiny_convolution(folder: Path) -> Path:
    """Short convolutions in two layers of three, full attention in the third (lfm2)."""
    config = _llama(VOCABULARY) | {
        "model_type": "lfm2",
        "num_hidden_layers": 3,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 64,
        "block_ff_dim": 128,
        "block_multiple_of": 16,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "full_attn_idxs": [1],
    }
    return write(folder, config)


def tiny_moe(folder: Path) -> Path:
    """Four experts, two of them for each token (qwen3_moe)."""
    config = _llama(VOCABULARY) | {
        "model_type": "qwen3_moe",
        "head_dim": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 64,
        "norm_topk_prob": True,
    }
    return write(folder, config)


def host_bound(folder: Path) -> Path:
    """Two layers of 64 and the starter's vocabulary and tokenizer: the time of a step is spent outside of the model."""
    config = _llama(49152) | {"intermediate_size": 128}
    write(folder, config, tokenizer=False)
    source = starter.ensure(progress=False)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(source / name, folder / name)
    return folder


def failing(folder: Path, token: str) -> Path:
    """A tiny llama whose own model file raises when it is given `token`. Needs `trust_model_code`."""
    write(folder, _llama(VOCABULARY))
    (folder / "poisoned.py").write_text(_FAILING.replace("POISON", str(ord(token))), encoding="utf-8")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_file": "poisoned.py"}))
    return folder


_FAILING = '''"""llama, but for one token."""

import mlx.core as mx
from mlx_lm.models import llama

ModelArgs = llama.ModelArgs


class Model(llama.Model):
    def __call__(self, inputs, cache=None, **kwargs):
        if mx.any(inputs == POISON).item():
            raise RuntimeError("this token is poison")
        return super().__call__(inputs, cache=cache, **kwargs)
'''


def _llama(vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "vocab_size": vocabulary,
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "eos_token_id": 256,
    }


def write(folder: Path, config: dict[str, Any], *, tokenizer: bool = True, seed: int = 7) -> Path:
    """A checkpoint of mlx-lm's own architecture for `config`, with random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    mx.random.seed(seed)
    model_class, args_class = _get_classes(config=config)
    model = model_class(args_class.from_dict(config))
    model.update(tree_map(_loud, model.parameters()))
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config))
    if tokenizer:
        byte_tokenizer().save_pretrained(str(folder))
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 256}))
    return folder


def _loud(array: mx.array) -> mx.array:
    array = array.astype(mx.float32)
    return array * 3 if array.ndim == 2 else array


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and the end token."""
    alphabet = {character: index for index, character in enumerate(_byte_alphabet())}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet | {END: 256}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END)
    wrapped.chat_template = TEMPLATE
    return wrapped


def _byte_alphabet() -> list[str]:
    """The printable stand-ins of ByteLevel, in byte order, so that the id of a byte is its value."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    stand_ins = {byte: chr(byte) for byte in printable}
    for offset, byte in enumerate(byte for byte in range(256) if byte not in stand_ins):
        stand_ins[byte] = chr(256 + offset)
    return [stand_ins[byte] for byte in range(256)]
