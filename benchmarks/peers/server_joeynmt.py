"""JoeyNMT: soft attention of Luong et al. with input feeding.

Model builder, loss and search are its own.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import torch
from joeynmt.batch import Batch
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary
from serving import (
    BOS,
    DEVICE,
    EOS,
    LONGEST,
    PAD,
    Rows,
    Task,
    arguments,
    longest_first,
    padded,
    serve,
    step,
)

IDS = [1, 2, 3, 0]  # JoeyNMT's ids of our PAD, BOS, EOS and UNK


def configuration(task: Task) -> dict[str, Any]:
    """Return the section `model` of its configuration."""

    def part(units: int, **more: Any) -> dict[str, Any]:
        return {
            "type": "recurrent",
            "rnn_type": "lstm",
            "embeddings": {"embedding_dim": task.embedding, "dropout": task.dropout},
            "hidden_size": units,
            "num_layers": task.layers,
            "dropout": task.dropout,
            **more,
        }

    return {
        "initializer": "xavier_uniform",
        "bias_initializer": "zeros",
        "embed_initializer": "normal",
        "embed_init_weight": 0.1,
        "init_rnn_orthogonal": False,
        "lstm_forget_gate": 0.0,
        "encoder": part(task.encoder, bidirectional=True),
        "decoder": part(
            task.decoder,
            hidden_dropout=task.dropout,
            input_feeding=True,
            init_hidden="bridge",
            attention="luong",
        ),
    }


def vocabulary(size: int) -> Vocabulary:
    """Make a vocabulary of so many symbols."""
    names = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    special = {f"{name}_token": token for name, token in names.items()}
    ids = {f"{name}_id": number for number, name in enumerate(names)}
    options = SimpleNamespace(**special, **ids, sep_token=None, lang_tags=[])
    return Vocabulary([f"w{number}" for number in range(size - len(names))], options)


def with_ids(rows: Rows) -> Rows:
    """Replace our special ids by JoeyNMT's."""
    return [[IDS[symbol] if symbol < len(IDS) else symbol for symbol in row] for row in rows]


def batch_of(sources: Rows, targets: Rows) -> Batch:
    """Make a batch as its data iterator does."""
    sources, targets = longest_first(sources, targets)
    source = padded(with_ids(sources), IDS[PAD])
    target = padded([[IDS[BOS], *row] for row in with_ids(targets)], IDS[PAD])
    lengths = torch.tensor([len(row) for row in sources], device=DEVICE)
    order = torch.arange(len(sources), device=DEVICE)

    return Batch(
        source,
        lengths,
        None,
        target,
        None,
        order,
        DEVICE,
        pad_index=IDS[PAD],
        eos_index=IDS[EOS],
    )


def main() -> None:
    logging.disable(logging.CRITICAL)
    _, task = arguments("soft")

    model = build_model(configuration(task), vocabulary(task.source), vocabulary(task.target))
    model = model.to(DEVICE)
    model.loss_function = ("crossentropy", 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = [batch_of(*batch) for batch in task.symbols]

    def train(number: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        model.train()
        optimizer.zero_grad()

        loss, *_ = model(return_type="loss", **vars(batch))
        step(model, optimizer, batch.normalize(loss, "tokens", n_gpu=0))
        return batch.nseqs, int(batch.ntokens)

    def decode(number: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        model.eval()

        forced = {}
        if task.steps:
            forced["min_output_length"] = task.steps
        outputs, *_ = search(model, batch, task.steps or LONGEST, task.beam, 0.0, **forced)
        return batch.nseqs, int((torch.as_tensor(outputs) != IDS[PAD]).sum())

    serve(train, decode)


if __name__ == "__main__":
    main()
