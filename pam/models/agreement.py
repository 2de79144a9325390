"""Two models of opposite directions, trained together with a bonus where their attention agrees."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.data.vocabulary import EOS, PAD
from pam.models.aligned_transformer import AlignedTransformer
from pam.models.attention_model import AttentionModel, pay_at_end
from pam.models.guide import Guide
from pam.models.model import without_end
from pam.models.seq2seq import Seq2Seq


class Agreement(AttentionModel):
    """A model from x to y, trained with a model from y to x (Cohn et al. 2016, section 3.3).

    Training maximizes

        log p(y | x) + log p(x | y) + weight * tr(A_{x to y} A_{y to x}).

    Row t of A_{x to y} is the attention of y_t over x, and row a of A_{y to x} that of x_a over y:
    the prior, or the posterior given the symbol, as Liang et al. (2006) let aligners agree.
    The trace is large where they are each other's transpose. Decoding uses the model x to y alone.

    Both directions are of the class beside this one among the bases of a subclass.
    """

    back: AttentionModel

    def __init__(
        self, ahead: AttentionModel, back: AttentionModel, weight: float, of_posterior: bool
    ) -> None:
        super().__init__(ahead.encoder, ahead.decoder, ahead.head, ahead.label_smoothing)
        self.back = back
        self.weight = weight
        self.of_posterior = of_posterior

    def _objective(
        self, source: Tensor, lengths: Tensor, target: Tensor, guide: Guide | None
    ) -> Tensor:
        turn = turned_round_in_place if self.compute.static else turned_round
        back_source, back_lengths, back_target = turn(source, lengths, target)

        values, unrolled = self.unrolled_objective(source, lengths, target, guide)
        back_values, back_unrolled = self.back.unrolled_objective(
            back_source, back_lengths, back_target
        )

        # One direction may write an end symbol that the other does not read: nothing attends to it.
        attention = self.attention(unrolled, self.of_posterior)
        attention = attention[:, : back_source.shape[1]]
        back_attention = self.back.attention(back_unrolled, self.of_posterior)
        back_attention = back_attention[:, : source.shape[1]]
        is_real = (back_source != PAD)[:, :, None] & (source != PAD)[:, None]
        trace = (attention * back_attention.transpose(1, 2) * is_real).sum((1, 2))

        back_log_likelihood = torch.where(back_target != PAD, back_values, 0.0).sum(1)
        return pay_at_end(values, back_log_likelihood + self.weight * trace, target)


class RecurrentAgreement(Agreement, Seq2Seq):
    """Two recurrent models of opposite directions."""


class TransformerAgreement(Agreement, AlignedTransformer):
    """Two Transformers of opposite directions, with alignment heads."""


def turned_round(source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Turn pairs into the opposite direction, as sources, lengths and targets for `objective`.

    Targets end in an end symbol; sources do so if the given sources do.
    """
    target_lengths = (target != PAD).sum(1)
    if bool((without_end(source, lengths) < lengths).all()):
        return target, target_lengths, source

    # An empty output keeps its end symbol: there must be something to attend to.
    back_lengths = (target_lengths - 1).clamp_min(1)
    positions = torch.arange(target.shape[1], device=target.device)
    back_source = target.masked_fill(positions >= back_lengths[:, None], PAD)
    back_source = back_source[:, : int(back_lengths.max())]
    back_target = F.pad(source, (0, 1), value=PAD).scatter(1, lengths[:, None], EOS)
    return back_source, back_lengths, back_target


def turned_round_in_place(
    source: Tensor, lengths: Tensor, target: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Turn pairs as `turned_round` does, into shapes that depend on no value.

    Sources are as long as the given targets, and targets one symbol longer than the given sources.
    A row of padding, without a target, gives an empty target.
    """
    has_end = without_end(source, lengths) < lengths
    target_lengths = (target != PAD).sum(1)
    is_padding = target_lengths == 0

    back_lengths = torch.where(has_end, target_lengths, target_lengths - 1).clamp_min(1)
    positions = torch.arange(target.shape[1], device=target.device)
    back_source = target.masked_fill(positions >= back_lengths[:, None], PAD)

    last = torch.where(has_end | is_padding, PAD, EOS)
    back_target = F.pad(source, (0, 1), value=PAD).scatter(1, lengths[:, None], last[:, None])
    return back_source, back_lengths, back_target.masked_fill(is_padding[:, None], PAD)
