"""Analysis of a trained model under teacher forcing: likelihood and attention, and heat maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pam.data.codecs import Codec
from pam.data.dataset import Examples, Prepared
from pam.data.vocabulary import END
from pam.decoding.generator import prepared_for
from pam.evaluation.attention import Analysis, Gatherer, Sentence
from pam.evaluation.metrics import Floats
from pam.experiments.run_folder import GOLD
from pam.models.checkpoint import SavedModel, load_model
from pam.runtime.devices import Stopwatch, choose_device, enough_for
from pam.runtime.errors import UserError

HINT = "lower `decoding.batch_size`, or --batch-size"
# symbols, end symbol included, on each side of a heat map that is legible and worth a look
LEGIBLE = range(6, 19)


def load_writer_of_symbols(model: Path, device: str = "cpu") -> SavedModel:
    """Load a model that can be forced to write the targets of any split.

    A UserError says that it writes pointer actions.
    """
    saved = load_model(model, choose_device(device))
    if saved.run.components.targets == "actions":
        problem = f"{saved.run.label} writes pointer actions, of which test rows have none"
        raise UserError(problem, hint="choose a model with `targets: symbols`")
    return saved


def analyze(model: SavedModel, data: Path, split: str, batch_size: int) -> Analysis:
    """Analyze a model on a split of prepared data or word alignments.

    Args:
        batch_size: rows that are worked on side by side.

    Raises:
        UserError: the data are not those that the model was trained with, or memory is short.
    """
    prepared = prepared_for(model, data, split)
    watch = Stopwatch(next(model.network.parameters()).device)
    gathered = _gather(model, prepared, split, batch_size)

    run = model.run
    return gathered.analysis(
        task=run.task,
        model=run.model,
        label=run.label,
        seed=run.seed,
        split=split,
        **watch.restart(),
    )


def _gather(model: SavedModel, data: Prepared, split: str, batch_size: int) -> Gatherer:
    """Force the model to write each target of a split, and gather the measures."""
    device = next(model.network.parameters()).device
    examples = Examples(data.split(split, extended=model.copies), "symbols")
    rows = data.rows(split)
    codec = data.codec

    gathered = Gatherer()
    for batch in examples.in_order(batch_size):
        with enough_for(f"the analysis of {len(batch.rows)} rows side by side", HINT):
            batch = batch.to(device)
            forced = model.network.teacher_force(batch.source, batch.lengths, batch.target)
            heads: dict[str, Tensor] = {}
            if split == GOLD:
                heads = model.network.head_alignments(batch.source, batch.lengths, batch.target)
        correct = forced.correct.cpu().numpy()
        log_probs = _array(forced.log_probs)
        exact = _array(forced.exact)
        prior = _array(forced.prior)
        alignment = _array(forced.alignment)
        posterior = _array(forced.posterior)
        of_heads = {name: _array(alignment) for name, alignment in heads.items()}

        for batch_row, row_index in enumerate(batch.rows.tolist()):
            source, target = _symbols(codec, rows[row_index])
            # A target that was cut has no end symbol, and its last symbol takes that one's place.
            m = len(source) + model.source_eos
            n = int(examples.target_lengths[row_index])
            sentence = Sentence(
                log_probs=log_probs[batch_row, :n],
                exact=exact[batch_row, :n],
                correct=correct[batch_row, :n],
                prior=prior[batch_row, :n, :m],
                alignment=alignment[batch_row, :n, :m],
                posterior=posterior[batch_row, :n, :m],
                heads={name: of_head[batch_row, :n, :m] for name, of_head in of_heads.items()},
                source_words=codec.words(source, "source"),
                target_words=codec.words(target[: n - 1], "target"),
                gives_positions=model.network.gives_positions,
            )
            gathered.add(row_index, sentence)

    return gathered


def _array(values: Tensor) -> Floats:
    """Return a tensor's values as a NumPy array of float64."""
    return values.double().cpu().numpy()


def _symbols(codec: Codec, row: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Split a row into the symbols of its source and target, without end symbols."""
    return codec.source_symbols(row[:-1]), codec.target_symbols(row[-1])


@torch.no_grad()
def heat_maps(
    model: SavedModel, data: Path, split: str, count: int, rows: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return prior attention and alignment of rows of a split, target symbol by target symbol.

    Args:
        count: the number of telling rows that are chosen where `rows` is None.
        rows: numbers of rows, from 0.

    Raises:
        UserError: there is no such row, or the data are not the model's.
    """
    prepared = prepared_for(model, data, split)
    table = prepared.rows(split)
    codec = prepared.codec

    def legible(row_index: int) -> bool:
        return all(len(symbols) + 1 in LEGIBLE for symbols in _symbols(codec, table[row_index]))

    # All rows are checked before any work is done.
    for row_index in rows or ():
        if not 0 <= row_index < len(table):
            raise UserError(f"there is no row {row_index}", hint=f"use 0 to {len(table) - 1}")
    if rows is None:
        rows = telling_rows(table, count, legible)

    maps = []
    for row_index in rows:
        source, target = _symbols(codec, table[row_index])
        forced = model.network.teacher_force(*model.pairs([source], [target]))

        heat_map: dict[str, Any] = dict(zip(model.codec.columns, table[row_index], strict=True))
        heat_map["row"] = row_index
        heat_map["source"] = model.spelled(source)
        heat_map["target"] = [*target, END]
        for name in ("prior", "alignment"):
            attention = getattr(forced, name)[0].tolist()
            heat_map[name] = [[round(value, 6) for value in weights] for weights in attention]
        maps.append(heat_map)

    return {"model": model.run.model, "label": model.run.label, "rows": maps}


def telling_rows(
    rows: Sequence[tuple[str, ...]], count: int, legible: Callable[[int], bool] = lambda _: True
) -> list[int]:
    """Choose rows to look at, spread evenly over the split.

    From each of `count` evenly spread places on, the first row is taken that meets three wishes:
    its target is not simply its first column, it is legible, and its middle columns (such as
    features) are not those of a row chosen before. If no row meets all, the earlier wishes weigh
    more.
    """
    total = len(rows)
    count = min(count, total)
    chosen: list[int] = []

    def faults(row_index: int) -> tuple[bool, bool, bool]:
        first_column, *middle, target = rows[row_index]
        is_repeated = any(rows[index][1:-1] == tuple(middle) for index in chosen)
        return target == first_column, not legible(row_index), is_repeated

    for spread_index in range(count):
        start = (2 * spread_index + 1) * total // (2 * count)
        candidates = [row_index % total for row_index in range(start, start + total)]
        candidates = [row_index for row_index in candidates if row_index not in chosen]
        chosen.append(min(candidates, key=faults))

    return sorted(chosen)
