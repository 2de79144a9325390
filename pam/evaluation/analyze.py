"""A trained model under teacher forcing: likelihood and attention of a split, and heat maps of a
few of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pam.data.dataset import Examples, Prepared
from pam.data.tokenizers import Codec
from pam.decoding.files import END
from pam.decoding.generator import prepared_for
from pam.evaluation.attention import Analysis, Gatherer, Sentence
from pam.io import UserError
from pam.models.checkpoint import SavedModel, load_model
from pam.runtime.devices import Stopwatch, choose_device, enough_for

HINT = "lower `decoding.batch_size`, or --batch-size"
# symbols, end symbol included, of a heat map worth a look in which they can be read
LEGIBLE = range(6, 19)


def load_writer_of_symbols(model: Path, device: str = "cpu") -> SavedModel:
    """A model that can be forced to write the targets of any split; a UserError if it writes
    pointer actions.
    """
    found = load_model(model, choose_device(device))
    if found.run.components.targets == "actions":
        words = f"{found.run.label} writes pointer actions, of which test rows have none"
        raise UserError(words, hint="choose a model with `targets: symbols`")
    return found


def analyze(model: SavedModel, data: Path, split: str, batch_size: int) -> Analysis:
    """What a model makes of a split of prepared data, or word alignments; `batch_size` rows are
    worked on side by side.

    A UserError says that the data are not those that the model was trained with, or that memory is
    short.
    """
    prepared, run = prepared_for(model, data, split), model.run
    watch = Stopwatch(next(model.network.parameters()).device)
    gathered = _gather(model, prepared, split, batch_size)
    about = {
        "task": run.task,
        "model": run.model,
        "label": run.label,
        "seed": run.seed,
        "split": split,
    }
    return gathered.analysis(**about, **watch.restart())


def _gather(model: SavedModel, data: Prepared, split: str, batch_size: int) -> Gatherer:
    device = next(model.network.parameters()).device
    examples = Examples(data.split(split, extended=model.copies), "symbols")
    rows, codec = data.rows(split), data.codec
    gathered = Gatherer()
    for batch in examples.in_order(batch_size):
        with enough_for(f"the analysis of {len(batch.rows)} rows side by side", HINT):
            batch = batch.to(device)
            forced = model.network.teacher_force(batch.source, batch.lengths, batch.target)
        correct = forced.correct.cpu().numpy()
        floats = (forced.log_probs, forced.exact, forced.prior, forced.alignment, forced.posterior)
        log_probs, exact, prior, alignment, posterior = (
            part.double().cpu().numpy() for part in floats
        )
        for place, number in enumerate(batch.rows.tolist()):
            source, target = _symbols(codec, rows[number])
            # A target that was cut has no end symbol, and its last symbol takes that one's place.
            m, n = len(source) + model.source_eos, int(examples.target_lengths[number])
            likelihood = log_probs[place, :n], exact[place, :n], correct[place, :n]
            attention = prior[place, :n, :m], alignment[place, :n, :m], posterior[place, :n, :m]
            words = codec.words(source, "source"), codec.words(target[: n - 1], "target")
            gathered.add(number, Sentence(*likelihood, *attention, *words))
    return gathered


def _symbols(codec: Codec, row: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Source and target of a row, without end symbols."""
    return codec.source_symbols(row[:-1]), codec.target_symbols(row[-1])


@torch.no_grad()
def heat_maps(
    model: SavedModel, data: Path, split: str, count: int, rows: Sequence[int] | None = None
) -> dict[str, Any]:
    """Prior and posterior attention of rows of a split, a list of source positions for each target
    symbol.

    The `rows` are numbers from 0; without them, `count` telling ones are chosen. A UserError says
    that there is no such row, or that the data are not the model's.
    """
    prepared = prepared_for(model, data, split)
    table, codec = prepared.rows(split), prepared.codec

    def legible(number: int) -> bool:
        return all(len(side) + 1 in LEGIBLE for side in _symbols(codec, table[number]))

    for number in rows or ():
        if not 0 <= number < len(table):
            raise UserError(f"there is no row {number}", hint=f"use 0 to {len(table) - 1}")
    maps = []
    for number in telling_rows(table, count, legible) if rows is None else rows:
        source, target = _symbols(codec, table[number])
        forced = model.network.teacher_force(*model.pairs([source], [target]))
        columns: dict[str, Any] = dict(zip(model.codec.columns, table[number], strict=True))
        end = [END] if model.source_eos else []
        symbols = {"row": number, "source": source + end, "target": [*target, END]}
        for name in ("prior", "alignment"):
            attention = getattr(forced, name)[0].tolist()
            symbols[name] = [[round(value, 6) for value in position] for position in attention]
        maps.append(columns | symbols)
    return {"model": model.run.model, "label": model.run.label, "rows": maps}


def telling_rows(
    rows: Sequence[tuple[str, ...]], count: int, legible: Callable[[int], bool] = lambda _: True
) -> list[int]:
    """Numbers of rows to look at: spread evenly, and each worth a look.

    From places spread evenly over the split, each time the first row from there on whose target is
    not simply its first column, that is neither too short nor too long, and whose middle columns
    (such as features) have not been shown; if there is none, a row that meets the first wishes, or
    the last, or any.
    """
    total = len(rows)
    chosen: list[int] = []
    for place in range(min(count, total)):
        start = (2 * place + 1) * total // (2 * min(count, total))
        walk = [number % total for number in range(start, start + total)]
        shown = {rows[number][1:-1] for number in chosen}
        left = [number for number in walk if number not in chosen]
        chosen.append(
            min(
                left,
                key=lambda n: (rows[n][-1] == rows[n][0], not legible(n), rows[n][1:-1] in shown),
            )
        )
    return sorted(chosen)
