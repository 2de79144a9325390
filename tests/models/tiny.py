"""Tiny models and batches in float64, for tests by enumeration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pam.experiments.model import ModelConfig
from pam.experiments.settings import Network
from pam.models.build import build
from pam.models.distributions import Projection
from pam.models.interfaces import Sizes
from pam.models.seq2seq import Seq2Seq
from tests.variants import model_named

VOCABULARY = 9
SIZES = Sizes(query=5, values=6, embedding=4, direction=3, layers=1, rate=0.0)
NAMED = (
    "soft",
    "soft-concat",
    "sparse",
    "sparsemax",
    "acvi",
    "ved",
    "prior-joint",
    "postr-joint",
    "prox-postr-joint",
    "mono-postr-joint",
    "variational",
    "variational-sample",
    "variational-gumbel",
    "hard",
    "hard-mono",
    "none",
    "mixture-3",
    "soft-location",
    "soft-no-input-feeding",
    "structural",
    "fertility",
    "local-m",
    "local-p",
    "structured",
    "soft-pointer",
    "soft-pointer-coverage",
    "postr-joint-pointer",
)
"""Models and variants of `config`, one or more with each kind of component."""


def components(name: str = "soft", **changed: Any) -> ModelConfig:
    """Return a named model's components, some of them changed."""
    return ModelConfig(**{**model_named(name).model_dump(), "network": {}, **changed})


def model(
    chosen: ModelConfig, layers: int = 1, dropout: float = 0.0, seed: int = 1, **sizes: Any
) -> Seq2Seq:
    """Make a model in float64 whose weights are large enough for every effect to show."""
    torch.manual_seed(seed)
    network = Network(
        embedding=4,
        encoder=3,
        decoder=5,
        encoder_layers=layers,
        decoder_layers=layers,
        dropout=dropout,
        **sizes,
    )
    made = build(chosen, network, VOCABULARY, VOCABULARY).double()
    assert isinstance(made, Seq2Seq)

    for parameter in made.parameters():
        torch.nn.init.uniform_(parameter, -1.0, 1.0)
    # Scores so far apart that some positions get no probability.
    if isinstance(made.distribution, Projection):
        for parameter in made.score.parameters():
            parameter.data.mul_(45.0)

    return made.eval()


def infer(model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor | None:
    """Compute log q of the model's inference network, (B, T, m)."""
    log_q: Tensor | None = model.inference(
        source, lengths, target, model.encoder.embed, model.decoder.embed
    )
    return log_q


def batch(
    rows: int = 4, source: int = 6, target: int = 5, seed: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw source (B, m), lengths (B,) from 1 to m, and target (B, n) with step actions (4)."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, source + 1, (rows,), generator=generator)
    lengths[0] = source
    lengths[-1] = 1
    ids = torch.randint(5, VOCABULARY, (rows, source), generator=generator)
    ids[torch.arange(source) >= lengths[:, None]] = 0

    return ids, lengths, torch.randint(4, VOCABULARY, (rows, target), generator=generator)
