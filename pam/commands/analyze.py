"""`analyze`: likelihood and attention of a trained model on given targets."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pam.data.dataset import Prepared
    from pam.evaluation.attention import Gatherer
    from pam.models.checkpoint import SavedModel

HINT = "lower `decoding.batch_size`, or --batch-size"
HELP = "likelihood, entropy, coverage and word links of a split, under teacher forcing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, help="model folder of a training")
    parser.add_argument("--data", type=Path, required=True, help="prepared data, or prepared gold")
    parser.add_argument("--split", default="test", choices=("train", "dev", "test", "gold"))
    parser.add_argument("--out", type=Path, required=True, help="analysis.json")
    parser.add_argument(
        "--batch-size", type=int, metavar="N", help="rows side by side (default: the model's own)"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")


def run(args: argparse.Namespace) -> int:
    from pam.decoding.generator import prepared_for
    from pam.evaluation import attention as analysis
    from pam.io import UserError
    from pam.models.checkpoint import load_model
    from pam.training.devices import choose_device, keep_heap, limit_threads
    from pam.training.logging import Stopwatch

    keep_heap()
    limit_threads()
    if args.batch_size is not None and args.batch_size < 1:
        raise UserError(f"--batch-size {args.batch_size}", hint="use a whole number, at least 1")
    device = choose_device(args.device)
    model = load_model(args.model, device)
    if model.run.components.targets == "actions":
        raise UserError(
            f"{model.run.label} writes pointer actions, of which test rows have none",
            hint="choose a model with `targets: symbols`",
        )
    data = prepared_for(model, args.data)
    watch = Stopwatch(device)
    gathered = _gather(model, data, args.split, args.batch_size)
    wall, cpu, gpu = watch.restart()
    run = model.run
    found = gathered.analysis(
        task=run.task,
        model=run.model,
        label=run.label,
        seed=run.seed,
        split=args.split,
        wall_s=wall,
        cpu_s=cpu,
        gpu_s=gpu,
    )
    analysis.save(found, args.out)
    return 0


def _gather(model: SavedModel, data: Prepared, split: str, size: int | None) -> Gatherer:
    from pam.data.dataset import Examples
    from pam.decoding.forced import force
    from pam.evaluation.attention import Gatherer, Sentence
    from pam.training.devices import enough_for

    device = next(model.network.parameters()).device
    examples, rows, codec = Examples(data.split(split), "symbols"), data.rows(split), model.codec
    gathered = Gatherer()
    for batch in examples.in_order(size or model.run.decoding.batch_size):
        with enough_for(f"the analysis of {len(batch.rows)} rows side by side", HINT):
            forced = force(model.network, batch.to(device))
        log_probs, exact, correct, prior, alignment = (
            part.cpu().numpy()
            for part in (
                forced.log_probs.double(),
                forced.exact.double(),
                forced.correct,
                forced.prior.double(),
                forced.alignment.double(),
            )
        )
        for place, number in enumerate(batch.rows.tolist()):
            source = codec.source_symbols(rows[number][:-1])
            target = codec.target_symbols(rows[number][-1])
            m, n = len(source) + 1, len(target) + 1
            gathered.add(
                number,
                Sentence(
                    log_probs[place, :n],
                    exact[place, :n],
                    correct[place, :n],
                    prior[place, :n, :m],
                    alignment[place, :n, :m],
                    codec.words(source, "source"),
                    codec.words(target, "target"),
                ),
            )
    return gathered
