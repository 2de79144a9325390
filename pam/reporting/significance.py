"""p-values by sacreBLEU's own paired bootstrap, as a column of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pam.evaluation.scores import read_made
from pam.io import Strict
from pam.reporting.comparison import Row
from pam.reporting.numbers import probability
from pam.reporting.sheets import Column, Extra


class Test(Strict):
    """One model against the baseline by one metric, named as in `scores.json`."""

    model: str
    metric: str
    score: float
    baseline: float
    p: float
    signature: str


class Significance(Strict):
    """The content of `significance/seed<k>.json`."""

    task: str
    seed: int
    baseline: str
    tests: list[Test]


def by_sacrebleu(paths: Sequence[Path]) -> Extra | None:
    """p of each row, one per seed; None where nothing was tested.

    Raises:
        UserError: a file is missing or holds no tests.
    """
    if not paths:
        return None
    read = sorted((read_made(Significance, path) for path in paths), key=lambda one: one.seed)
    found: dict[tuple[str, str, str], list[float]] = {}
    for one in read:
        for test in one.tests:
            found.setdefault((one.task, test.model, test.metric), []).append(test.p)

    def text(row: Row) -> str:
        values = found.get((row.task, row.model, row.metric.name), [])
        return "; ".join(probability(value) for value in values)

    return Extra(
        name="p_sacrebleu",
        column=Column("p, sacreBLEU", "r", text),
        after="p",
        note="p, sacreBLEU: by sacreBLEU's own paired bootstrap, each seed against the baseline's "
        "same seed. It differs from ours in two points: it is one-sided in effect, so that of a "
        "clear gain it is half of ours, and it does not average over seeds.",
    )
