"""Models whose outputs differ, end or are cut short, and differ between greedy and beam search."""

from __future__ import annotations

from pam.models.seq2seq import Seq2Seq
from tests.models import tiny

SOURCES = [[5], [6, 7], [8, 5, 6], [7, 7, 8, 5], [6], [5, 8], [6, 6, 7], [8]]
ACTIONS = {name: name == "hard-mono" for name in tiny.NAMED}


def model(name: str) -> Seq2Seq:
    """A named model in float64; its weights were chosen for what it writes for `SOURCES`."""
    seed, scale = (38, 1.0) if ACTIONS[name] else (9, 3.0)
    made = tiny.model(tiny.choices(name), seed=seed)
    made.readout.output.weight.data.mul_(scale)
    made.recurrence.get_parameter("cells.0.weight_ih").data.mul_(scale)
    return made
