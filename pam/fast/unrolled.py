"""The recurrence step by step, for models whose feedback looks at no symbol.

Steps are the reference's own; what is gained is that the output layer, the larger part of the work,
is computed once for all steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pam.data.vocabulary import PAD
from pam.fast.steps import Batch, Steps
from pam.models.parts import Attention
from pam.models.seq2seq import Seq2Seq


def unroll(model: Seq2Seq, batch: Batch) -> Steps:
    """The steps of a batch."""
    memory, state = batch.memory, model.start(batch.memory)
    taken: list[Attention] = []
    summed = torch.zeros_like(memory.mask, dtype=memory.values.dtype)
    for t, symbol in enumerate(batch.target.unbind(1)):
        masks = None if batch.masks is None else batch.masks[:, t]
        noise = None if batch.noise is None else batch.noise.at(t)
        attention = model.attend(memory, state, batch.embedded[t], masks, noise)
        state = model.move(memory, state.past, attention, None, symbol)
        assert state.alignment is not None
        summed = summed + state.alignment * (symbol != PAD)[:, None]
        taken.append(attention)
    return Steps(
        queries=torch.stack([attention.query for attention in taken]),
        log_prior=torch.stack([attention.log_prior for attention in taken]),
        shifts=_stacked([attention.shift for attention in taken]),
        costs=_stacked([attention.cost for attention in taken]),
        summed=summed,
    )


def _stacked(parts: list[Tensor | None]) -> Tensor | None:
    known = [part for part in parts if part is not None]
    return torch.stack(known) if known else None
