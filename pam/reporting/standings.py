"""Rank the models of a task for the first screen of the page, from the rows of a comparison."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from pam.evaluation.metrics import Metric, metric_of
from pam.experiments.experiment import Experiment
from pam.reporting.catalogue import refers_to_papers
from pam.reporting.cells import FINEST, UNDECIDED, Estimate, Judgement, Name, PaperFigure
from pam.reporting.comparison import COMPARED
from pam.reporting.items import TableSpec
from pam.reporting.render import Row, Table

BETTER = "better"
WORSE = "worse"
OTHER_DATA = "* on the paper's own data, which are not ours"


class Standing(NamedTuple):
    """One model in the table of the first screen."""

    model: Name
    is_best: bool
    ours: Estimate
    gain: Estimate | None  # over the baseline
    paper: PaperFigure | None  # the paper's gain
    verdict: Judgement

    @property
    def html_class(self) -> str:
        """The class by which a style colors the verdict."""
        return self.verdict.html_class(self.gain)

    @property
    def caveat(self) -> str:
        """The corrected p where the verdict takes a side that it does not bear out."""
        if self.gain is None or self.html_class == self.verdict.html_class():
            return ""
        return f"Holm {self.gain.holm_text}"


class Ranking(NamedTuple):
    """The models of one task by one metric, as the first screen has them."""

    label: str  # the task's
    metric: str  # with its unit and direction
    judged: str  # heading of the last column: of verdicts, or of comparisons where no paper is
    rows: list[Standing]

    @property
    def has_paper(self) -> bool:
        """Whether a paper has a gain of one of the models."""
        return any(row.paper for row in self.rows)

    @property
    def note(self) -> str:
        """The meaning of the mark of figures of other data; empty if there is none."""
        if all(row.paper.same_data for row in self.rows if row.paper):
            return ""
        return OTHER_DATA


def metric_of_finding(spec: TableSpec, rows: Sequence[Row]) -> str | None:
    """Return the metric of which a finding speaks, of those that a table has; None if it has none.

    Where scoring has left out the finding's metric, the first one of the table stands in.
    """
    metrics: list[str] = [row["metric"].key for row in rows]
    for pattern in (*spec.finding, *spec.metrics):
        for metric in metrics:
            if fnmatchcase(metric, pattern):
                return metric
    return None


def settled(row: Row) -> str:
    """Return `better` or `worse` if a gain is that after Holm's correction, else `undecided`."""
    gain = row.get("gain")
    outcome = row.get("outcome")
    if gain is None or outcome is None or gain.may_be_chance:
        return UNDECIDED
    return str(outcome.word)


def rows_of(table: Table, task: str, metric: str | None = None) -> list[Row]:
    """Return the rows of a comparison about a task, and about a metric if one is named."""
    return [row for row in table.rows if row.task == task and metric in (None, row["metric"].key)]


def ranking(table: Table, spec: TableSpec, experiment: Experiment, task: Name) -> Ranking:
    """Rank the models of a task by the metric of its finding."""
    rows = rows_of(table, task.key)
    metric_name = metric_of_finding(spec, rows)
    if metric_name is None:
        return Ranking(task.label, metric="", judged="", rows=[])

    rows = rows_of(table, task.key, metric_name)
    best = _best(rows, metric_of(metric_name), experiment.models_of(task.key))
    judged = f"{COMPARED}{rows[0]['baseline'].label}"
    if refers_to_papers(experiment):
        judged = "Verdict"
    return Ranking(
        label=task.label,
        metric=in_words(metric_of(metric_name)),
        judged=judged,
        rows=[
            Standing(
                model=row["model"],
                is_best=row["model"].key in best,
                ours=row["level"],
                gain=row.get("gain"),
                paper=row.get("paper_gain"),
                verdict=_verdict(row),
            )
            for row in rows
        ],
    )


def _best(rows: Sequence[Row], metric: Metric, models: Collection[str]) -> set[str]:
    """Return the models of the experiment with the best mean; none where all are equal."""
    means = {
        row["model"].key: round(row["level"].value, FINEST)
        for row in rows
        if row["model"].key in models
    }
    if len(set(means.values())) < 2:
        return set()
    best = min(means.values()) if metric.lower_is_better else max(means.values())
    return {model for model, mean in means.items() if mean == best}


def _verdict(row: Row) -> Judgement:
    """Return a verdict: on the paper's claim where there is one, else on the gain."""
    verdict: Judgement = row["verdict"]
    if row.has("paper") and verdict.word != "not judged":
        return verdict
    if row["model"].key == row["baseline"].key:
        return Judgement("the baseline")
    if row.has("outcome"):
        outcome: Judgement = row["outcome"]
        return outcome
    return Judgement("not judged", row["judged_seeds"].text)


def in_words(metric: Metric) -> str:
    """Name a metric with its unit and direction."""
    words = metric.label
    if metric.unit:
        words += f" in {metric.unit}"
    return words + (", lower is better" if metric.lower_is_better else ", higher is better")
