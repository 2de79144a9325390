"""All steps of a batch under teacher forcing."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pam.models.memory import Memory, Noise


@dataclass(frozen=True)
class Batch:
    """A batch on its way through the decoder.

    Attributes:
        memory: the encoded sources.
        embedded: (n, B, E) of the decoder's inputs.
        masks: dropout masks of the recurrence, or None.
        noise: what the model draws, or None.
        target: (B, n).
        narrow: whether large products are taken in bfloat16.
    """

    memory: Memory
    embedded: Tensor
    masks: Tensor | None
    noise: Noise | None
    target: Tensor
    narrow: bool


@dataclass(frozen=True)
class Steps:
    """What the steps of a batch attend to, time first.

    Attributes:
        queries: (n, B, H). log_prior: (n, B, m).
        gold: (B, n) log p(y_t | y_<t, x), where a posterior that was fed back told it; or None.
        shifts: (n, B, D) what a latent adds to contexts, or None.
        costs: (n, B) nats that it costs, or None.
        summed: (B, m) alignments handed on, added up over real symbols; None if nobody asks.
    """

    queries: Tensor
    log_prior: Tensor
    gold: Tensor | None = None
    shifts: Tensor | None = None
    costs: Tensor | None = None
    summed: Tensor | None = None
