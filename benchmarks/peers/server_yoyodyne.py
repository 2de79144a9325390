"""yoyodyne: soft and hard attention, a pointer-generator and a Transformer.

Models, losses and searches are its own, without Lightning's trainer. A source begins with a symbol
of its own, as its mapper adds it. Source and target share a table of embeddings, its default.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from serving import DEVICE, EOS, LONGEST, Rows, Task, arguments, serve, step
from torch import Tensor

# It looks there whether a run is logged.
sys.modules["wandb"] = ModuleType("wandb")

from yoyodyne import data, models, special  # noqa: E402
from yoyodyne.models import modules  # noqa: E402

# its ids of our PAD, BOS, EOS, UNK and STEP
IDS = [
    special.PAD_IDX,
    special.START_IDX,
    special.END_IDX,
    special.UNK_IDX,
    special.SOURCE_IDX,
]
FURTHER = 1  # it has one special id more than we do
HEADS = 4
LONGEST_ROW = 1000  # symbols of a row, for which a Transformer has positions

MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "soft": (models.SoftAttentionLSTMModel, {}),
    "hard": (models.HardAttentionLSTMModel, {}),
    "monotone": (
        models.HardAttentionLSTMModel,
        {"attention_context": 1, "enforce_monotonic": True},
    ),
    "pointer-generator": (models.PointerGeneratorLSTMModel, {}),
    "transformer": (models.TransformerModel, {"decoder_attention_heads": HEADS}),
}


def built(name: str, task: Task) -> Any:
    """Build a model, with fresh weights."""
    kind, options = MODELS[name]
    shared = {"dropout": task.dropout, "embedding_size": task.embedding, "layers": task.layers}
    units = task.decoder
    if name == "transformer":
        units = 4 * task.embedding  # of its feed-forward layers
        encoder = modules.TransformerEncoder(attention_heads=HEADS, hidden_size=units, **shared)
    else:
        encoder = modules.LSTMEncoder(hidden_size=task.encoder, **shared)

    model = kind(
        source_encoder=encoder,
        decoder_dropout=task.dropout,
        decoder_hidden_size=units,
        decoder_layers=task.layers,
        embedding_size=task.embedding,
        compute_accuracy=False,
        max_source_length=LONGEST_ROW,
        max_target_length=LONGEST_ROW,
        target_vocab_size=task.target + FURTHER,
        vocab_size=max(task.source, task.target) + FURTHER,
        **options,
    )
    # It asks its trainer whether it validates.
    model.trainer = SimpleNamespace(validating=False, sanity_checking=False)
    return model.to(DEVICE)


def own_id(symbol: int) -> int:
    """Return its id of one of our symbols."""
    if symbol < len(IDS):
        return int(IDS[symbol])
    return symbol + FURTHER


def batch_of(sources: Rows, targets: Rows) -> Any:
    """Make a batch as its collator does."""

    def tensors(rows: Rows, *first: int) -> Any:
        return data.batches.PaddedTensor(
            [torch.tensor([*first, *map(own_id, row)], device=DEVICE) for row in rows]
        )

    return data.Batch(tensors(sources, special.START_IDX), target=tensors(targets))


def main() -> None:
    logging.disable(logging.CRITICAL)
    args, task = arguments(*MODELS)
    model = built(args.model, task)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = [batch_of(*batch) for batch in task.symbols]
    computes_loss = args.model in ("hard", "monotone")

    def train(number: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        model.train()
        optimizer.zero_grad()

        loss = model(batch)
        if not computes_loss:
            loss = model.loss_func(loss, batch.target.tensor)
        step(model, optimizer, loss)
        return len(batch), int((~batch.target.mask).sum())

    def outputs_of(number: int, beam: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        model.eval()
        model.beam_width = beam
        model.max_target_length = task.steps or LONGEST
        # No output ends before its limit.
        if task.steps:
            model.classifier.bias.data[own_id(EOS)] = -1e4
        with torch.no_grad():
            outputs = model.predict_step(batch, number)
        best = outputs[0][:, 0] if beam > 1 else outputs
        return len(batch), lengths_of(best)

    def decode(number: int) -> tuple[int, int]:
        return outputs_of(number, task.beam)

    def greedy(number: int) -> tuple[int, int]:
        return outputs_of(number, 1)

    # Hard attention has no beam search.
    serve(train, None if computes_loss else decode, greedy=greedy)


def lengths_of(outputs: Tensor) -> int:
    """Count the symbols of outputs (B, n) up to the first end of each, which counts."""
    is_end = outputs == special.END_IDX
    has_not_ended = is_end.cumsum(1) - is_end.long() == 0
    # Those of beam search begin with a start.
    is_symbol = (outputs != special.PAD_IDX) & (outputs != special.START_IDX)
    return int((has_not_ended & is_symbol).sum())


if __name__ == "__main__":
    main()
