"""An inference network of two bidirectional LSTMs, over source and target."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pam.config import DEEPEST
from pam.data.vocabulary import PAD
from pam.models.encoder import lstms, read
from pam.models.logspace import masked_log_softmax
from pam.models.parts import Embed, Inference
from pam.models.sizes import Sizes, check_scale, check_size


class _Reader(nn.Module):
    """One bidirectional LSTM: inputs (n, B, E) of `lengths` (B,) to states (B, n, 2 units)."""

    def __init__(self, size: int, units: int, layers: int, rate: float) -> None:
        super().__init__()
        self.forwards = lstms(size, units, layers, 2 * units)
        self.backwards = lstms(size, units, layers, 2 * units)
        self.rate = rate

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        rate = self.rate if self.training else 0.0
        states, _ = read(self.forwards, self.backwards, inputs, lengths, rate)
        return states


class BiLSTM(Inference):
    """q_t(a | x, y) = softmax_a(g_t^T W u_a): u reads the source, g the target, both ways.

    Of the model it shares the embeddings and nothing else (Deng et al. 2018; Orlova et al., section
    3). Dropout stands where the encoder has it, at the encoder's rate.

    Args:
        units: LSTM units of a direction. None: as many as the encoder has.
        layers: bidirectional layers. None: as many as the encoder has.
        scale: divides the scores by the root of g_t's units, as that of the score `general`.
    """

    def __init__(
        self,
        sizes: Sizes,
        units: int | None = None,
        layers: int | None = None,
        scale: bool = False,
    ) -> None:
        super().__init__()
        check_size("inference option `units`", units, null="the encoder's")
        check_size("inference option `layers`", layers, null="the encoder's", most=DEEPEST)
        units, layers = units or sizes.direction, layers or sizes.layers
        self.source = _Reader(sizes.embedding, units, layers, sizes.rate)
        self.target = _Reader(sizes.embedding, units, layers, sizes.rate)
        self.weight = nn.Linear(2 * units, 2 * units, bias=False)
        self.factor = check_scale("inference option `scale`", scale, 2 * units)

    def forward(
        self,
        source: Tensor,
        lengths: Tensor,
        target: Tensor,
        embed_source: Embed,
        embed_target: Embed,
    ) -> Tensor:
        of_source = self.source(embed_source(source.t()), lengths)  # (B, m, 2 units)
        of_target = self.target(embed_target(target.t()), (target != PAD).sum(1))
        queries = self.weight(of_target) * self.factor
        scores = torch.bmm(queries, of_source.transpose(1, 2))  # (B, n, m)
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        return masked_log_softmax(scores, mask[:, None])


COMPONENT = BiLSTM
