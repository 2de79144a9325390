"""Models whose outputs differ, end or are cut short, and differ between greedy and beam search."""

from __future__ import annotations

from typing import Any

from pam.models.seq2seq import Seq2Seq
from tests.models import tiny

SOURCES = [[5], [6, 7], [8, 5, 6], [7, 7, 8, 5], [6], [5, 8], [6, 6, 7], [8]]
SEEDS = {
    "hard-mono": (38, 15),
    "sparse": (115, 151),
    "sparsemax": (115, 151),
    "variational": (115, 151),
    "variational-sample": (115, 27),
    "variational-gumbel": (115, 27),
    "soft-concat": (2, 10),
    "soft-location": (2, 20),
    "soft-no-input-feeding": (115, 151),
    "acvi": (2, 3),
    "ved": (9, 1),
    "mixture-3": (7, 1),
    "none": (6, 230),
    "structural": (20, 20),
    "fertility": (1, 17),
    "local-p": (2, 36),
    "soft-pointer": (9, 13),
    "soft-pointer-coverage": (9, 152),
    "postr-joint-pointer": (9, 252),
}
"""Seeds of `model` and of `short`, chosen for their outputs for `SOURCES`.

The other models have (9, 17).
"""
ACTIONS = {name: name == "hard-mono" for name in tiny.NAMED}


def model(name: str) -> Seq2Seq:
    """Make a named model in float64 whose greedy outputs differ; some are cut short."""
    scale = 1.0 if ACTIONS[name] else 3.0
    return _made(name, SEEDS.get(name, (9, 17))[0], scale, scale)


def short(name: str, **changed: Any) -> Seq2Seq:
    """Make a model whose most probable strings of up to two symbols differ, also in length.

    Args:
        changed: components that are not the named model's.
    """
    readout = 3.0 if ACTIONS[name] else 6.0
    return _made(name, SEEDS.get(name, (9, 17))[1], readout, 3.0, **changed)


def _made(name: str, seed: int, readout: float, recurrence: float, **changed: Any) -> Seq2Seq:
    network = tiny.model(tiny.components(name, **changed), seed=seed)
    network.readout.output.weight.data.mul_(readout)
    network.decoder.get_parameter("cells.0.weight_ih").data.mul_(recurrence)
    return network
