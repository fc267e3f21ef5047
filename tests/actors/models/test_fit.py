"""Every expected number here was computed by hand from the sentence beside it."""

from __future__ import annotations

import pytest

from actors.models.fit import (
    Load,
    assess,
    decode_tps,
    kv_bytes,
    max_context,
    quantized,
    transient_bytes,
    usable_bytes,
)
from actors.models.layers import Attention, Layers, Recurrent
from actors.models.sku import CHIPS, matrix

# 4 layers; each token leaves 2 x 2 heads x 64 numbers of 2 bytes = 512 bytes in each.
PLAIN = Layers((Attention(8, 64, 256),) * 4, (), 4096, 0, 0)


def test_full_attention_keeps_every_token() -> None:
    assert kv_bytes(Load(PLAIN, 0), 100) == 4 * 512 * 100


def test_a_window_keeps_no_more_than_its_length() -> None:
    layers = Layers((Attention(8, 64, 256, window=16), Attention(8, 64, 256)), (), 4096, 0, 0)
    assert kv_bytes(Load(layers, 0), 10) == 2 * 512 * 10
    assert kv_bytes(Load(layers, 0), 100) == 512 * 16 + 512 * 100


def test_a_recurrent_layer_keeps_the_same_whatever_was_read() -> None:
    layers = Layers((), (Recurrent(1000), Recurrent(1000)), 4096, 0, 0)
    assert kv_bytes(Load(layers, 0), 1) == kv_bytes(Load(layers, 0), 4096) == 2000


def test_quantized_caches_are_billed_with_their_scales() -> None:
    # 8 bits are one byte, and 64 numbers share 4 bytes of scale and bias: 1.0625.
    assert quantized(8, 64) == 1.0625
    assert kv_bytes(Load(PLAIN, 0, value_bytes=quantized(8, 64)), 100) == 4 * 256 * 100 * 1.0625


def test_scratch_grows_with_the_chunk_only() -> None:
    assert transient_bytes(Load(PLAIN, 0), 100) == 55_000_000
    assert transient_bytes(Load(PLAIN, 0), 2048) == transient_bytes(Load(PLAIN, 0), 4000) == 1_126_400_000


def test_heads_without_a_kernel_write_their_scores_down() -> None:
    odd = Load(Layers((Attention(8, 256, 256), Attention(4, 256, 256)), (), 4096, 0, 0), 0)
    # 8 heads x 2048 queries x 4000 keys x 2 bytes, the largest layer alone.
    assert transient_bytes(odd, 4000) == 1_126_400_000 + 131_072_000
    # 8 queries take a kernel that writes none; a window bounds the keys.
    assert transient_bytes(odd, 8) == 4_400_000
    windowed = Load(Layers((Attention(8, 256, 256, window=512),), (), 4096, 0, 0), 0)
    assert transient_bytes(windowed, 4000) == 1_126_400_000 + 8 * 2048 * 512 * 2


def test_the_longest_context_is_the_last_that_fits() -> None:
    # A token costs 2048 bytes of cache and, up to 2048 tokens, 550,000 bytes of scratch.
    load = Load(PLAIN, weight_bytes=1_000_000)
    assert max_context(load, 1_000_000 + 10 * 552_048) == 10
    assert max_context(load, 1_000_000 + 10 * 552_048 - 1) == 9
    # Behind the chunk only the caches grow.
    assert max_context(load, 1_000_000 + 1_126_400_000 + 3000 * 2048) == 3000
    assert max_context(load, 10**12) == 4096
    assert max_context(load, 999_999) == 0


def test_a_token_moves_the_weights_and_the_caches_once() -> None:
    # 100 tokens leave 204,800 bytes: 100e9 / 1,000,204,800 x 0.82.
    assert decode_tps(Load(PLAIN, 10**9), 100, 100) == pytest.approx(81.98321, abs=1e-4)


def test_experts_that_are_not_chosen_are_not_moved() -> None:
    mixture = Layers((), (), 4096, experts=8, experts_per_token=2)
    # 10e9 bytes, of which 8e9 are experts and a quarter of these is used: 4e9. 400e9 / 4e9 x 0.76.
    assert decode_tps(Load(mixture, 10**10, expert_bytes=8 * 10**9), 400, 0) == pytest.approx(76.0)


def test_a_budget_replaces_the_share_of_the_ram() -> None:
    assert usable_bytes(16 * 2**30, None) == 12 * 2**30
    assert usable_bytes(16 * 2**30, 5) == 5


def test_an_assessment_adds_up() -> None:
    fit = assess(Load(PLAIN, 10**9), 3 * 10**9, 100, 100)
    assert (fit.weights, fit.kv, fit.transient, fit.usable) == (10**9, 204_800, 55_000_000, 3 * 10**9)
    assert (fit.fits, fit.total, fit.max_context) == (True, 1_055_204_800, 4096)
    assert assess(Load(PLAIN, 10**9), fit.total, 100, 100).fits
    assert not assess(Load(PLAIN, 10**9), fit.total - 1, 100, 100).fits


def test_the_matrix_has_every_machine_and_tells_them_apart() -> None:
    wide = Layers((Attention(32, 128, 2048),) * 32, (), 131_072, 0, 0)
    rows = {row.sku: row for row in matrix(Load(wide, 8 * 10**9), 32_768)}
    assert len(rows) == sum(len(sizes) for _, sizes in CHIPS.values())
    # 131,072 bytes a token are 4.29e9 for 32,768; with 8e9 and 1.13e9 of scratch: 13.4e9, above 0.75 x 16 GiB.
    assert not rows["M1 16 GB"].fits
    assert rows["M4 Pro 24 GB"].fits
    # (12 GiB - 8e9 - 1,126,400,000) / 131,072 tokens.
    assert rows["M1 16 GB"].max_context == 28_675
    # 273e9 / (8e9 + 4,294,967,296) x 0.82.
    assert rows["M4 Pro 24 GB"].decode_tps == pytest.approx(18.2074, abs=1e-3)
    assert rows["M4 Pro 24 GB"].decode_tps == rows["M4 Pro 48 GB"].decode_tps


def test_the_matrix_asks_for_no_more_than_the_models_own_window() -> None:
    rows = {row.sku: row for row in matrix(Load(PLAIN, 10**9), 32_768)}
    assert rows["M1 8 GB"].max_context == 4096
    assert rows["M1 8 GB"].fits
