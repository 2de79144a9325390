"""Ours: a model of config/models by its name, trained and decoded as `python -m pam` does it."""

from __future__ import annotations

import numpy as np
import torch
from serving import EOS, Rows, arguments, padded, serve

from pam.benchmark import Plan, named_model, training
from pam.config import Decoding, Network
from pam.data.dataset import Batch
from pam.decoding.search import search
from pam.io import parse
from pam.models.build import build
from pam.models.checkpoint import load_tensors
from pam.runtime import devices


def batch_of(sources: Rows, targets: Rows) -> Batch:
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
    batches = [batch_of(*batch) for batch in (task.actions if is_pointer else task.symbols)]
    plans = [
        Plan(network, 64, 1, 1, 1, [task.beam], precision, 1) for precision in ("float32", "bf16")
    ]
    works = {plan.precision: training(model, plan) for plan in plans}
    chosen = "float32"
    limits = {"max_ratio": 0.001, "max_extra": task.steps} if task.steps else {}
    settings = {
        precision: parse(Decoding, {"beam": task.beam, "precision": precision, **limits})
        for precision in works
    }

    def use(precision: str) -> None:
        nonlocal chosen
        chosen = precision
        devices.use_precision(precision)
        model.use_bf16(precision == "bf16")

    def train(number: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        works[chosen](batch)
        return len(batch.rows), int(batch.mask.sum())

    def decode(number: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        model.eval()
        if task.steps:
            dict(model.named_parameters())["readout.output.bias"].data[
                EOS
            ] = -1e4  # no output ends before its limit
        outputs = search(model, batch.source, batch.lengths, settings[chosen], is_pointer)
        return len(outputs), sum(len(output.symbols) for output in outputs)

    @torch.no_grad()
    def notes(number: int) -> dict[str, float]:
        """How many positions are summed over, where the model leaves some out and no number is
        given.
        """
        cut = components.marginalization
        if getattr(cut, "mass", None) is None or getattr(cut, "top_k", None) is not None:
            return {}
        batch = batches[number % len(batches)]
        model.eval()
        summed = model.teacher_force(batch.source, batch.lengths, batch.target).positions
        all_of_them = batch.lengths[:, None].expand_as(summed)
        found = {"positions": summed, "of": all_of_them}
        return {name: float(count[batch.mask].double().mean()) for name, count in found.items()}

    serve(train, decode, use, notes)


if __name__ == "__main__":
    main()
