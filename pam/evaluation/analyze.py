"""Likelihood and attention of a trained model on given targets, under teacher forcing."""

from __future__ import annotations

from pathlib import Path

from pam.data.dataset import Examples, Prepared
from pam.decoding.generator import prepared_for
from pam.evaluation.attention import Analysis, Gatherer, Sentence
from pam.io import UserError
from pam.models.checkpoint import SavedModel, load_model
from pam.training.devices import choose_device, enough_for
from pam.training.logging import Stopwatch

HINT = "lower `decoding.batch_size`, or --batch-size"


def load_writer_of_symbols(model: Path, device: str = "cpu") -> SavedModel:
    """A model that can be forced to write the targets of any split.

    Raises:
        UserError: it writes pointer actions, or its folder is not whole.
    """
    found = load_model(model, choose_device(device))
    if found.run.components.targets == "actions":
        raise UserError(
            f"{found.run.label} writes pointer actions, of which test rows have none",
            hint="choose a model with `targets: symbols`",
        )
    return found


def analyze(model: SavedModel, data: Path, split: str, batch_size: int) -> Analysis:
    """What a model makes of a split, word by word of it.

    Args:
        data: folder of prepared data, or of prepared word alignments.
        batch_size: rows worked on side by side.

    Raises:
        UserError: the data are not those that the model was trained with, or memory is short.
    """
    prepared = prepared_for(model, data)
    watch = Stopwatch(next(model.network.parameters()).device)
    gathered = _gather(model, prepared, split, batch_size)
    wall, cpu, gpu = watch.restart()
    run = model.run
    return gathered.analysis(
        task=run.task, model=run.model, label=run.label, seed=run.seed, split=split, wall_s=wall, cpu_s=cpu, gpu_s=gpu
    )


def _gather(model: SavedModel, data: Prepared, split: str, batch_size: int) -> Gatherer:
    device = next(model.network.parameters()).device
    examples, rows, codec = Examples(data.split(split), "symbols"), data.rows(split), model.codec
    gathered = Gatherer()
    for batch in examples.in_order(batch_size):
        with enough_for(f"the analysis of {len(batch.rows)} rows side by side", HINT):
            batch = batch.to(device)
            forced = model.network.teacher_force(batch.source, batch.lengths, batch.target)
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
