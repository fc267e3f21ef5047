"""How the served model stands on this machine and on others. Reads its configuration and headers, nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass

from actors.library.messages import FitAnswer, FitQuestion
from actors.library.rates import Measured
from actors.models.experts import expert_bytes
from actors.models.fit import Fit, Load, assess, in_half_precision, max_context, usable_bytes
from actors.models.layers import Layers, read_layers
from actors.models.machine import Machine, this_machine
from actors.models.sku import SkuFit, matrix

TYPICAL_CONTEXT = 8192
"""Tokens of a conversation that rates are told for."""
MATRIX_CONTEXT = 32768
"""Tokens that other machines are judged by."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What stays the same while the model is served."""

    machine: Machine
    """This machine."""
    layers: Layers
    """The model's."""
    context: int
    """Tokens there is room for."""
    report: Fit
    """At that context."""
    typical: Fit
    """At the typical context, or the room there is."""
    matrix: tuple[SkuFit, ...]
    """Other machines."""


def estimate(question: FitQuestion, budget: int | None) -> Standing:
    """Blocks for some tens of milliseconds.

    Raises:
        OSError, ValueError: the model's files cannot be read, or do not say enough.
    """
    config = json.loads((question.path / "config.json").read_text(encoding="utf-8"))
    layers = read_layers(config)
    experts = expert_bytes(sorted(question.path.glob("model*.safetensors"))) if layers.experts else 0
    machine = this_machine()
    usable = usable_bytes(machine.ram_bytes, budget)
    resident = question.resident_bytes or question.stored_bytes
    # Experts take the same share of memory as of the disk, whatever type they are converted to.
    here = Load(layers, resident, int(experts * resident / max(1, question.stored_bytes)), question.value_bytes)
    room = max_context(here, usable)
    context = min(room, question.context_limit or room)
    elsewhere = in_half_precision(Load(layers, resident, experts), question.stored_bytes)
    return Standing(
        machine=machine,
        layers=layers,
        context=context,
        report=assess(here, usable, machine.bandwidth_gbs, context),
        typical=assess(here, usable, machine.bandwidth_gbs, min(TYPICAL_CONTEXT, context)),
        matrix=tuple(matrix(elsewhere, MATRIX_CONTEXT)),
    )


def answer(standing: Standing, measured: Measured | None) -> FitAnswer:
    """The standing with what was measured."""
    attention = standing.layers.attention
    return FitAnswer(
        machine=standing.machine,
        context=standing.context,
        report=standing.report,
        typical_context=min(TYPICAL_CONTEXT, standing.context),
        typical_decode_tps=standing.typical.decode_tps,
        measured_decode_tps=measured.tokens_per_s if measured else None,
        measured_at=measured.at if measured else None,
        matrix_context=MATRIX_CONTEXT,
        matrix=standing.matrix,
        full_layers=sum(layer.window is None for layer in attention),
        sliding_layers=sum(layer.window is not None for layer in attention),
        recurrent_layers=len(standing.layers.recurrent),
    )
