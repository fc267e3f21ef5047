from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from actors.models import architecture


@pytest.mark.parametrize(
    ("config", "module"),
    [
        ({"model_type": "llama"}, "llama"),
        ({"model_type": "mistral"}, "llama"),
        ({"model_type": "lfm2-vl"}, "lfm2-vl"),
        ({"model_type": "solar_open"}, "solar_open"),
        ({"model_type": "bailing_hybrid", "architectures": ["BailingMoeV3ForCausalLM"]}, "bailing_moe_v3"),
        ({"model_type": "bailing_hybrid", "architectures": None}, "bailing_hybrid"),
        ({"model_type": "bert"}, None),
        ({"model_type": "cache"}, None),
        ({"model_type": "../models/llama"}, None),
        ({"model_type": 7}, None),
        ({}, None),
    ],
)
def test_a_config_names_its_module_the_way_mlx_lm_would_choose_it(config: dict, module: str | None) -> None:
    assert architecture.module_of(config) == module


def test_every_architecture_listed_is_one_that_mlx_lm_can_import() -> None:
    for name in ("llama", "gemma3_text", "qwen3_5", "mamba2", "qwen3_moe", "solar_open"):
        assert name in architecture.architectures()
        assert hasattr(importlib.import_module(f"mlx_lm.models.{name}"), "Model")


def test_looking_an_architecture_up_imports_neither_mlx_nor_mlx_lm() -> None:
    script = (
        "import sys; from actors.models.architecture import module_of; print(module_of({'model_type': 'mistral'}));"
        "print([name for name in sys.modules if name.split('.')[0] in ('mlx', 'mlx_lm', 'transformers')])"
    )
    done = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, check=True)
    assert done.stdout.splitlines() == ["llama", "[]"]
