"""Checkpoints that say what the user's message tells them to, token by token, whatever runs beside them.

The chat template puts the message between two tokens, and the model's own file replays what stands between them: so a
test writes a family's exact output into its request. The tokenizer has a token a byte, and those of the family.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from tokenizers import AddedToken

from tests.support import checkpoints

PLAY, GO = "<|play|>", "<|go|>"
"""What the script stands between. What the template says after it, such as a tag, is the script's beginning."""
_CONVERSATION = (
    "{% set said = messages | selectattr('role', 'equalto', 'user') | list %}"
    "{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}"
    "{% for message in messages %}{% if message.role != 'user' %}"
    "<{{ message.role }}>{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}CALL{% endfor %}\n"
    "{% endif %}{% endfor %}"
    f"{PLAY}{{{{ said[-1].content }}}}{GO}"
)


def template(call: str, opening: str = "") -> str:
    """A chat template.

    Args:
        call: how it renders a call of the past; by this the server tells the family.
        opening: what the assistant's turn begins with.
    """
    return _CONVERSATION.replace("CALL", call) + opening


def checkpoint(
    folder: Path, template: str, special: Sequence[str] = (), added: Sequence[str] = (), ends: Sequence[str] = ()
) -> Path:
    """Write one. It needs `trust_model_code`.

    Args:
        folder: where to.
        template: the chat template.
        special: special tokens, which have no text unless the family's splitters ask for it.
        added: further tokens of their own, which are text.
        ends: those of them that end an answer, beside the end token.
    """
    tokenizer: Any = checkpoints.byte_tokenizer()
    words = dict.fromkeys((PLAY, GO, *special), True) | dict.fromkeys(added, False)
    for word, is_special in words.items():
        tokenizer.add_tokens(AddedToken(word, special=is_special, normalized=False))
    tokenizer.chat_template = template
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(str(folder))
    ids = {word: tokenizer.convert_tokens_to_ids(word) for word in (PLAY, GO, checkpoints.END, *ends)}
    config = {
        "model_type": "scripted",
        "model_file": "scripted.py",
        "vocab_size": len(tokenizer),
        "play": ids[PLAY],
        "go": ids[GO],
        "end": ids[checkpoints.END],
        "eos_token_id": [ids[word] for word in (checkpoints.END, *ends)],
        "max_position_embeddings": 1 << 20,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": config["eos_token_id"]}))
    (folder / "scripted.py").write_text(_MODEL, encoding="utf-8")
    mx.save_safetensors(str(folder / "model.safetensors"), {"weight": mx.array([40.0])}, metadata={"format": "mlx"})
    return folder


_MODEL = '''"""Repeats what stands between two tokens of its prompt, then ends. Its only cache holds the tokens."""

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.base import BaseModelArgs
from mlx_lm.models.cache import KVCache


@dataclass
class ModelArgs(BaseModelArgs):
    model_type: str
    vocab_size: int
    play: int
    go: int
    end: int


class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.weight = mx.array([40.0])

    @property
    def layers(self):
        return [None]

    def make_cache(self):
        return [KVCache()]

    def __call__(self, inputs, cache=None, **kwargs):
        own = inputs[:, None, :, None].astype(mx.float32)
        seen, _ = cache[0].update_and_fetch(own, own)
        rows = np.array(seen[:, 0, :, 0]).astype(np.int64)
        return self.weight * mx.array(np.stack([self.logits(row, inputs.shape[1]) for row in rows]))

    def logits(self, seen, count):
        """After each of the last `count` tokens: the script's next one, or the end."""
        hot = np.zeros((count, self.args.vocab_size), dtype=np.float32)
        first = len(seen) - count
        starts, stops = np.flatnonzero(seen == self.args.play), np.flatnonzero(seen == self.args.go)
        script = seen[starts[-1] + 1 : stops[-1]] if len(starts) and len(stops) else seen[:0]
        for place in range(count):
            at = first + place - stops[-1] if len(stops) else -1
            hot[place, script[at] if 0 <= at < len(script) else self.args.end] = 1
        return hot
'''
