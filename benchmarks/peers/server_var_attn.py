"""var-attn of Deng et al. (2018): soft attention, or its exact sum over positions.

Its decoding is not measured.
"""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import Any

import torch
from serving import BOS, PAD, Rows, Task, arguments, longest_first, padded, serve, step
from torch import Tensor, nn
from torch.nn import functional as F


def stand_in_for_torchtext() -> None:
    """Make classes of an old torchtext, which its data sets extend; they are not used here."""
    names = {"data": ("Dataset", "Iterator", "Field", "Example"), "vocab": ("Vocab",)}
    package = sys.modules["torchtext"] = ModuleType("torchtext")
    for name, classes in names.items():
        module = sys.modules[f"torchtext.{name}"] = ModuleType(f"torchtext.{name}")
        vars(module).update({class_name: type(class_name, (), {}) for class_name in classes})
        setattr(package, name, module)


stand_in_for_torchtext()

from onmt.Models import Generator, InputFeedRNNDecoder, NMTModel, RNNEncoder  # noqa: E402
from onmt.modules import Embeddings  # noqa: E402
from onmt.ViModels import ViNMTModel, ViRNNDecoder  # noqa: E402


def built(task: Task, exact: bool) -> Any:
    """Build the model, its output layer included.

    With `exact` it sums over positions, else it attends softly.
    """
    memory = 2 * task.encoder
    units = task.decoder
    dropout = task.dropout
    dropout_between_layers = dropout if task.layers > 1 else 0.0

    def embeddings(size: int) -> Any:
        return Embeddings(
            task.embedding,
            word_vocab_size=size,
            word_padding_idx=PAD,
            feat_padding_idx=[],
            feat_vocab_sizes=[],
            dropout=dropout,
        )

    encoder = RNNEncoder(
        "LSTM",
        True,
        task.layers,
        memory,
        units,
        dropout_between_layers,
        embeddings(task.source),
        False,
    )
    shared = {
        "memory_size": memory,
        "hidden_size": units,
        "attn_size": units,
        "attn_type": "general",
        "dropout": dropout,
        "embeddings": embeddings(task.target),
    }

    if exact:
        decoder = ViRNNDecoder(
            "LSTM",
            True,
            task.layers,
            p_dist_type="categorical",
            q_dist_type="categorical",
            use_prior=True,
            scoresF=partial(F.softmax, dim=-1),
            n_samples=1,
            mode="exact",
            temperature=1.0,
            **shared,
        )
        model = ViNMTModel(encoder, decoder, None, use_prior=True)
    else:
        model = NMTModel(encoder, InputFeedRNNDecoder("LSTM", True, task.layers, **shared))

    model.generator = Generator(units, task.target, "exact")
    return model


def batch_of(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Return sources (m, B, 1), their lengths, targets (n, B, 1)."""
    sources, targets = longest_first(sources, targets)
    source = padded(sources)
    target = padded([[BOS, *row] for row in targets])
    lengths = torch.tensor([len(row) for row in sources])
    return source.t()[:, :, None].contiguous(), lengths, target.t()[:, :, None].contiguous()


def main() -> None:
    args, task = arguments("soft", "exact")
    model = built(task, args.model == "exact")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = nn.NLLLoss(ignore_index=PAD, reduction="sum")
    batches = [batch_of(*batch) for batch in task.symbols]

    def train(number: int) -> tuple[int, int]:
        source, lengths, target = batches[number % len(batches)]
        gold = target[1:, :, 0]
        symbols = int((gold != PAD).sum())

        model.train()
        optimizer.zero_grad()

        outputs, _, _, distributions, *_ = model(source, target, lengths)
        prior = {}
        if args.model == "exact":
            prior["log_pa"] = distributions.p.log_alpha
        log_probs = model.generator(outputs, **prior)
        step(model, optimizer, loss_of(log_probs.flatten(0, -2), gold.flatten()) / symbols)
        return len(lengths), symbols

    serve(train, None)


if __name__ == "__main__":
    main()
