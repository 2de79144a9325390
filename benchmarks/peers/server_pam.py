"""Ours: a model of config/models by its name, trained and decoded as `python -m pam` does it."""

from __future__ import annotations

import numpy as np
import torch
from serving import EOS, Rows, arguments, padded, serve

from pam.data.dataset import Batch
from pam.decoding.search import search
from pam.experiments.parsing import parse
from pam.experiments.settings import Decoding, Network
from pam.measuring.benchmark import Plan, named_model, training
from pam.models.build import build
from pam.models.checkpoint import load_tensors
from pam.runtime import devices


def batch_of(sources: Rows, targets: Rows) -> Batch:
    """Make a batch of ids."""
    lengths = torch.tensor([len(row) for row in sources])
    return Batch(np.arange(len(sources)), padded(sources), lengths, padded(targets))


def main() -> None:
    devices.keep_heap()
    args, task = arguments()

    components = named_model(args.model)
    network = Network(
        embedding=task.embedding,
        encoder=task.encoder,
        decoder=task.decoder,
        encoder_layers=task.layers,
        decoder_layers=task.layers,
        dropout=task.dropout,
    )
    model = build(components, network, task.source, task.target)
    if args.weights:
        model.load_state_dict(load_tensors(args.weights)[0])

    is_pointer = components.targets == "actions"
    symbols = task.actions if is_pointer else task.symbols
    batches = [batch_of(*batch) for batch in symbols]

    limits = {}
    if task.steps:
        limits = {"max_ratio": 0.001, "max_extra": task.steps}
    works = {}
    settings = {}
    for precision in ("float32", "bf16"):
        plan = Plan(network, 64, 1, 1, 1, [task.beam], precision, 1)
        works[precision] = training(model, plan)
        for beam in (task.beam, 1):
            content = {"beam": beam, "precision": precision, **limits}
            settings[precision, beam] = parse(Decoding, content)
    chosen = "float32"
    end_bias = next(bias for name, bias in model.named_parameters() if name.endswith("output.bias"))

    def use(precision: str) -> None:
        nonlocal chosen
        chosen = precision
        devices.use_precision(precision)
        model.use_bf16(precision == "bf16")

    def train(number: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        works[chosen](batch)
        return len(batch.rows), int(batch.mask.sum())

    def outputs_of(number: int, beam: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        model.eval()
        # No output ends before its limit.
        if task.steps:
            end_bias.data[EOS] = -1e4
        outputs = search(model, batch.source, batch.lengths, settings[chosen, beam], is_pointer)
        return len(outputs), sum(len(output.symbols) for output in outputs)

    def decode(number: int) -> tuple[int, int]:
        return outputs_of(number, task.beam)

    def greedy(number: int) -> tuple[int, int]:
        return outputs_of(number, 1)

    @torch.no_grad()
    def notes(number: int) -> dict[str, float]:
        """Return how many positions are summed over, where a mass decides which are left out."""
        cut = components.marginalization
        if getattr(cut, "mass", None) is None or getattr(cut, "top_k", None) is not None:
            return {}

        batch = batches[number % len(batches)]
        model.eval()
        summed = model.teacher_force(batch.source, batch.lengths, batch.target).positions
        available = batch.lengths[:, None].expand_as(summed)
        return {
            "positions": float(summed[batch.mask].double().mean()),
            "of": float(available[batch.mask].double().mean()),
        }

    serve(train, decode, use, notes, greedy)


if __name__ == "__main__":
    main()
