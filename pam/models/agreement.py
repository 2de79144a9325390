"""Both directions of translation trained together, with a bonus where their attention agrees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.data.vocabulary import EOS, PAD
from pam.models.attention_model import pay_at_end
from pam.models.model import without_end
from pam.models.seq2seq import Seq2Seq


class Agreement(Seq2Seq):
    """A model x to y, trained with one y to x (Cohn et al. 2016, section 3.3). It maximizes

        log p(y | x) + log p(x | y) + weight * tr(A_{x to y} A_{y to x}),

    where row t of A_{x to y} is the attention of y_t over x, and row a of A_{y to x} that of x_a
    over y: the trace is high where they are each other's transpose. It decodes as a model x to y.
    """

    def __init__(self, ahead: Seq2Seq, back: Seq2Seq, weight: float) -> None:
        parts: dict[str, Any] = dict(ahead.named_children())
        super().__init__(**parts)
        self.back, self.weight = back, weight

    def _objective(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        values, unrolled = self.unrolled_objective(source, lengths, target)
        turn = turned_round_in_place if self.static else turned_round
        read, sizes, written = turn(source, lengths, target)
        back_values, back = self.back.unrolled_objective(read, sizes, written)
        prior, back_prior = unrolled.prior(), back.prior()
        # An end symbol that one direction writes and the other does not read is nowhere to be
        # attended to.
        both = prior[:, : read.shape[1]] * back_prior[:, : source.shape[1]].transpose(1, 2)
        trace = (both * ((read != PAD)[:, :, None] & (source != PAD)[:, None])).sum((1, 2))
        other = torch.where(written != PAD, back_values, 0.0).sum(1)
        return pay_at_end(values, other + self.weight * trace, target)


def turned_round(source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same pairs in the opposite direction: sources, their lengths and targets, as `objective`
    takes them.

    Targets end in an end symbol, and sources in one where those of this direction do.
    """
    sizes = (target != PAD).sum(1)
    if bool((without_end(source, lengths) < lengths).all()):
        return target, sizes, source
    # An empty output keeps its end symbol: there must be something to attend to.
    left = (sizes - 1).clamp_min(1)
    read = target.masked_fill(
        torch.arange(target.shape[1], device=target.device) >= left[:, None], PAD
    )
    return (
        read[:, : int(left.max())],
        left,
        F.pad(source, (0, 1), value=PAD).scatter(1, lengths[:, None], EOS),
    )


def turned_round_in_place(
    source: Tensor, lengths: Tensor, target: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same in shapes that depend on no value: what is read is as long as the target, what is
    written by one symbol longer than the source. A row of padding, without a target, writes
    nothing.
    """
    has_end = without_end(source, lengths) < lengths
    sizes = (target != PAD).sum(1)
    left = torch.where(has_end, sizes, sizes - 1).clamp_min(1)
    positions = torch.arange(target.shape[1], device=target.device)
    read = target.masked_fill(positions >= left[:, None], PAD)

    last = torch.where(has_end | (sizes == 0), PAD, EOS)
    written = F.pad(source, (0, 1), value=PAD).scatter(1, lengths[:, None], last[:, None])
    return read, left, written.masked_fill((sizes == 0)[:, None], PAD)
