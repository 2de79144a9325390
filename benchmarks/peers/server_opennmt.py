"""OpenNMT-py: soft attention of Luong et al. with input feeding.

Modules and translator are its own. Its bidirectional encoder has as many units as its decoder, both
directions together. The loss is the sum that its `LossCompute` takes, without the statistics, which
cost time of their own.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch
from serving import BOS, DEVICE, EOS, LONGEST, PAD, UNK, Rows, Task, arguments, padded, serve, step
from torch import Tensor, nn

# It imports these for text filters that are not used here.
sys.modules |= {name: ModuleType(name) for name in ("fasttext", "spacy")}

from onmt.decoders.decoder import InputFeedRNNDecoder  # noqa: E402
from onmt.encoders.rnn_encoder import RNNEncoder  # noqa: E402
from onmt.models.model import NMTModel  # noqa: E402
from onmt.modules import Embeddings  # noqa: E402
from onmt.translate import GNMTGlobalScorer  # noqa: E402
from onmt.translate.translator import Translator  # noqa: E402


class Words(dict[str, int]):
    """As much of a vocabulary as the translator needs."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def lookup_token(self, token: str) -> int:
        return {"<blank>": PAD, "<s>": BOS, "</s>": EOS}.get(token, UNK)

    def __len__(self) -> int:
        return self.size


def built(task: Task, attention: str = "general") -> Any:
    """Build the model, with fresh weights."""
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
        "LSTM", True, task.layers, units, dropout_between_layers, embeddings(task.source), False
    )
    decoder = InputFeedRNNDecoder(
        "LSTM",
        True,
        task.layers,
        units,
        attn_type=attention,
        dropout=dropout,
        embeddings=embeddings(task.target),
    )

    model = NMTModel(encoder, decoder)
    model.generator = nn.Linear(units, task.target)
    for parameter in model.parameters():
        parameter.data.uniform_(-0.1, 0.1)
    return model


def batch_of(sources: Rows, targets: Rows) -> dict[str, Tensor]:
    """Make a batch as its data iterator does."""
    source = padded(sources)[:, :, None]
    target = padded([[BOS, *row] for row in targets])[:, :, None]
    lengths = torch.tensor([len(row) for row in sources], device=DEVICE)
    return {"src": source, "srclen": lengths, "tgt": target}


def main() -> None:
    _, task = arguments("soft")
    model = built(task).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")
    batches = [batch_of(*batch) for batch in task.symbols]

    words = {"src": Words(task.source), "tgt": Words(task.target), "decoder_start_token": "<s>"}
    translator = Translator(
        model,
        words,
        beam_size=task.beam,
        min_length=task.steps or 0,
        max_length=task.steps or LONGEST,
        max_length_ratio=0,
        global_scorer=GNMTGlobalScorer(0.0, 0.0, "none", "none"),
        dump_beam="",
    )

    def train(number: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        gold = batch["tgt"][:, 1:, 0]
        symbols = int((gold != PAD).sum())
        model.train()
        optimizer.zero_grad()

        states, _ = model(batch["src"], batch["tgt"], batch["srclen"], bptt=False, with_align=False)
        loss = loss_of(model.generator(states.flatten(0, 1)), gold.flatten())
        step(model, optimizer, loss / symbols)
        return len(gold), symbols

    def decode(number: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        model.eval()
        sources = {"src": batch["src"], "srclen": batch["srclen"]}
        predictions = translator.translate_batch(sources, False)["predictions"]
        return len(batch["src"]), sum(len(best[0]) for best in predictions)

    serve(train, decode)


if __name__ == "__main__":
    main()
