"""Translations of all models, side by side with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from pam.config import Experiment, load_run
from pam.evaluation.inputs import read_predictions
from pam.io import UserError
from pam.reporting.render import Column, Table, table_of
from pam.reporting.runs import label_of

COUNT = 6
"""Sentences of each task."""

WORDS = range(6, 26)
"""Lengths of the sources that are shown: neither trifling nor too long to be compared by eye."""


class Outputs(NamedTuple):
    """What one model made of a test split: sources, references and outputs, line by line."""

    path: Path
    task: str
    model: str
    label: str
    seed: int
    lines: list[tuple[str, ...]]


CSV = ("task", "sentence", "model", "label", "text")
SHOWN = (
    Column("Task", "{task_label}", "l"),
    Column("Sentence", "{sentence}"),
    Column("", "{label}", "l"),
    Column("Text", "{shown}", "p"),
)
NOTE = (
    f"First seed, main beam, words as the models write them. {COUNT} sentences of "
    f"{WORDS.start} to {WORDS.stop - 1} source words, spread evenly over those of the test "
    "split on which the models differ most: not the best ones, nor drawn at random."
)


def examples(experiment: Experiment, predictions: Sequence[Path], title: str) -> Table:
    """Some sentences of each task with the outputs of every model's first seed.

    Raises:
        UserError: predictions of one task are about different sentences.
    """
    read = [_read(path) for path in predictions]
    lines: list[tuple[str, int, str, str, str]] = []
    for name in experiment.tasks:
        models = _in_order([one for one in read if one.task == name], experiment)
        for place in _most_different([one.lines for one in models]):
            source, target, _ = models[0].lines[place]
            texts = [("", "Source", source), ("", "Reference", target)]
            texts += [(one.model, one.label, one.lines[place][2]) for one in models]
            lines += [(name, place + 1, *text) for text in texts]
    frame = pd.DataFrame(lines, columns=CSV, dtype=object)
    frame["task_label"] = [label_of(task, experiment) for task in frame["task"]]
    frame["shown"] = frame["text"].replace("", "(empty)")
    return table_of(title, frame, CSV, {}, SHOWN, (NOTE,), group=2)


def _read(path: Path) -> Outputs:
    run = load_run(path.parent.parent / "run.yaml")
    lines = read_predictions(path, ("source", "target", "predicted"))
    return Outputs(path, run.task, run.model, run.label, run.seed, lines)


def _in_order(found: Sequence[Outputs], experiment: Experiment) -> list[Outputs]:
    """The first seed of each model, models as the experiment names them."""
    first = {one.model: one for one in sorted(found, key=lambda one: -one.seed)}
    models = [first[model] for model in experiment.models if model in first]
    for other in models[1:]:
        if [line[:2] for line in other.lines] != [line[:2] for line in models[0].lines]:
            raise UserError(
                f"these are not the sentences of {models[0].path}",
                file=other.path,
                hint="predict again on the same prepared data",
            )
    return models


def _most_different(outputs: Sequence[Sequence[tuple[str, ...]]], count: int = COUNT) -> list[int]:
    """Numbers of sentences to show: of each of `count` stretches the one on which models differ.

    That is the sentence with most different outputs, the first of equals; those whose
    source has a length in `WORDS` come before all others.
    """
    sentences = len(outputs[0]) if outputs else 0

    def rank(number: int) -> tuple[bool, int]:
        different = {lines[number][2] for lines in outputs}
        return len(outputs[0][number][0].split()) in WORDS, len(different)

    bounds = [place * sentences // count for place in range(count + 1)]
    stretches = [range(*ends) for ends in pairwise(bounds)]
    return [max(stretch, key=rank) for stretch in stretches if stretch]
