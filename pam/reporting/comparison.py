"""Ours against a paper's: its results, means over seeds, intervals, gains, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from pam.config import Experiment
from pam.evaluation import bootstrap
from pam.evaluation.bootstrap import LEVEL, MANY, RESAMPLES, RESAMPLES_OF_MANY, Interval
from pam.evaluation.metrics import Floats, Metric, metric_of
from pam.reporting.catalogue import PaperTable, TableSpec, check_rows
from pam.reporting.render import FINEST
from pam.reporting.runs import DEVICES, ScoredRun, TaskRuns, check_known, load_runs, whole_cost


@dataclass(frozen=True)
class Inputs:
    """What a table may be made of."""

    experiment: Experiment
    papers: Mapping[str, PaperTable]
    scores: Sequence[Path] = ()
    predictions: Sequence[Path] = ()
    significance: Sequence[Path] = ()
    gold_scores: Sequence[Path] = ()
    analyses: Sequence[Path] = ()

    @cached_property
    def tasks(self) -> list[TaskRuns]:
        """The scored runs; a `UserError` if they cannot be in one table, or a task names an unknown row of a paper."""
        check_rows(self.papers, self.experiment)
        return load_runs(self.scores, self.experiment)

    def title(self, spec: TableSpec) -> str:
        """A table's title with the experiment's."""
        own = self.experiment.title
        return f"{spec.title}: {own}" if own else spec.title

    def paper(self, spec: TableSpec) -> PaperTable | None:
        """The paper's results that a table shows with ours."""
        return self.papers.get(spec.paper) if spec.paper else None


# Reproduced, not reproduced, cannot tell, or not judged: the one rule for every table.

RULE = (
    f"Intervals are {100 * LEVEL:g} % percentile bootstrap intervals over test units (lemmas or sentences; "
    f"{RESAMPLES:,} draws, {RESAMPLES_OF_MANY:,} of more than {MANY:,} units) of the mean over seeds. The baseline is "
    "`reproduced` if the paper's figure lies in our interval, else `not reproduced`. Every other model is judged by "
    "its gain over the baseline, counted so that better is positive, G in the paper and g here, with the paired "
    "interval of g: `reproduced` if the interval excludes 0 on G's side; `not reproduced` if it excludes G and does "
    "not exclude 0 on G's side; `cannot tell` otherwise. It is `not judged` where the paper has no figure, where "
    "our data are not the paper's, and with fewer than 2 seeds. Whatever a paper has, a gain is `better` or `worse` if "
    "its interval excludes 0, else `undecided`."
)
RULE_NOTE = f"Verdict. {RULE}"
Word = Literal["reproduced", "not reproduced", "cannot tell", "not judged"]


class Verdict(NamedTuple):
    word: Word
    reason: str  # what decided it


def judge(paper: float | None, ours: Interval, same_data: bool, seeds: int, gain: bool) -> Verdict:
    """Judges the baseline by its level, any other model by its gain, by `RULE`.

    The interval of ours is the paired one for a gain; `seeds` is then the fewer of the model's and the baseline's.
    """
    if paper is None:
        return Verdict("not judged", "the paper has no figure")
    if not same_data:
        return Verdict("not judged", "other data than the paper's")
    if seeds < 2:
        return Verdict("not judged", "fewer than 2 seeds")
    if not gain:
        if paper in ours:
            return Verdict("reproduced", "the paper's figure lies in our interval")
        return Verdict("not reproduced", "the paper's figure lies outside our interval")
    if (paper > 0 and ours.low > 0) or (paper < 0 and ours.high < 0):
        return Verdict("reproduced", "our interval excludes 0 on the side of the paper's gain")
    if paper not in ours:
        return Verdict("not reproduced", "our interval excludes the paper's gain")
    return Verdict("cannot tell", "our interval holds both 0 and the paper's gain")


# The comparison: one row per task, metric and model.


class Row(NamedTuple):
    """One model on one task by one metric.

    A gain says how much better a model's mean is than the baseline's, in the metric's unit, positive also where lower
    is better, as with perplexity. It is None for the baseline, and where the baseline was not run.
    """

    task: str
    task_label: str
    model: str
    label: str
    metric: Metric
    values: tuple[float, ...]  # the metric for each seed, in ascending order of seeds
    mean: float
    sd: float | None  # over seeds, n - 1 below
    low: float  # ends of the bootstrap interval of `mean` over units, seeds held fixed
    high: float
    paper: float | None  # the paper's value, shown also where its data are others than ours
    same_data: bool  # whether the paper's value was measured on this data set
    verdict: Word
    reason: str
    seconds: Mapping[str, float]  # by device, of training plus decoding: mean over the seeds with both on that one
    divided: bool  # whether a seed was trained on one device and decoded on another one, which no mean counts
    members: tuple[str, ...]  # models of which it is an ensemble, whose trainings are their own cost
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    p: float | None = None
    paper_gain: float | None = None  # None also where the paper has no value of the model or of the baseline

    @property
    def seeds(self) -> int:
        return len(self.values)

    @property
    def cpu_s(self) -> float | None:
        """Processor seconds, of seeds that ran on no other device; None where no seed did or they are unknown."""
        return self.seconds.get("CPU")

    @property
    def gpu_s(self) -> float | None:
        """The same of GPU seconds; 0 where all seeds ran on the processor."""
        only_cpu = list(self.seconds) == ["CPU"] and not self.divided
        return 0.0 if only_cpu else self.seconds.get("GPU")

    @property
    def told(self) -> str | None:
        """What the test says of the gain; None where there is none."""
        if self.gain_low is None or self.gain_high is None:
            return None
        return "better" if self.gain_low > 0 else "worse" if self.gain_high < 0 else "undecided"

    @property
    def digits(self) -> int:
        """Digits after the point: the metric's, and as many more as tell the ends of its intervals from each other."""
        pairs = [(self.low, self.high), (self.gain_low, self.gain_high)]
        ends = [pair for pair in pairs if None not in pair and not _alike(pair, FINEST)]
        return next((n for n in range(self.metric.decimals, FINEST) if not any(_alike(one, n) for one in ends)), FINEST)

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's value, where both were measured on the same data."""
        return self.mean - self.paper if self.paper is not None and self.same_data else None


def _alike(ends: tuple[float | None, float | None], digits: int) -> bool:
    low, high = (one and round(one, digits) for one in ends)
    return low == high


def frame_of(rows: Sequence[Row]) -> pd.DataFrame:
    """The rows as a frame, with `n` seeds and the metric's name."""
    frame = pd.DataFrame(rows, columns=Row._fields, dtype=object)
    properties = ("difference", "cpu_s", "gpu_s")
    derived = {name: pd.Series([getattr(row, name) for row in rows], dtype=object) for name in properties}
    return frame.assign(metric=[row.metric.name for row in rows], n=[row.seeds for row in rows], **derived)


def compare(
    tasks: Sequence[TaskRuns],
    experiment: Experiment,
    patterns: Sequence[str],
    paper: PaperTable | None,
    first: bool = False,
) -> list[Row]:
    """One row per task, metric and model, in the order of the configuration; a UserError if no task has such a metric.

    Args:
        patterns: names of metrics, or patterns such as `bleu_b*`; first: take only the first of a task's.
        paper: the results to show with ours; None for metrics that no paper reports.
    """
    check_known(patterns, tasks)
    rows: list[Row] = []
    for task in tasks:
        metrics = [metric_of(name) for name in task.metrics(patterns)[: 1 if first else None]]
        columns = list(dict.fromkeys(column for one in metrics for column in one.columns))
        # All models by all metrics are seen under the same draws of units.
        counts = np.stack([run.scores.counts().of(columns) for run in task.runs])
        totals, draws = counts.sum(axis=1), bootstrap.resampled_sums(counts)
        ends = np.cumsum([len(runs) for runs in task.models.values()])[:-1]
        for metric in metrics:
            places = [columns.index(column) for column in metric.columns]
            values = np.split(metric.value(totals[:, places]), ends)
            means = [seeds.mean(axis=0) for seeds in np.split(metric.value(draws[..., places]), ends)]
            measured = dict(zip(task.models, zip(values, means, strict=True), strict=True))
            rows += _rows(task, metric, measured, experiment.baseline, paper)
    return rows


Measured = Mapping[str, tuple[Floats, Floats]]  # a model's values (seeds,) and their mean in each resample (resamples,)


def _rows(task: TaskRuns, metric: Metric, measured: Measured, baseline: str, paper: PaperTable | None) -> Iterator[Row]:
    """A row for each model."""
    same_data = task.config.paper is not None
    paper_row = task.config.paper or task.config.paper_reference
    reported = {name: paper.value(metric.name, paper_row, name) if paper else None for name in [*measured, baseline]}
    sign = -1.0 if metric.lower_is_better else 1.0
    for name, (values, means) in measured.items():
        runs, spread = task.models[name], bootstrap.interval(means)
        gain: dict[str, float | None] = {}
        verdict = Verdict("not judged", "the baseline was not run")
        if name == baseline:
            verdict = judge(reported[name], spread, same_data, len(values), gain=False)
        elif baseline in measured:
            base_values, base_means = measured[baseline]
            value, differences = sign * float(values.mean() - base_values.mean()), sign * (means - base_means)
            paired, p = bootstrap.interval(differences), bootstrap.p_value(differences, value)
            own, other = reported[name], reported[baseline]
            paper_gain = None if own is None or other is None else sign * (own - other)
            gain = {"gain": value, "gain_low": paired.low, "gain_high": paired.high, "p": p, "paper_gain": paper_gain}
            verdict = judge(paper_gain, paired, same_data, min(len(values), len(base_values)), gain=True)
        seconds, divided = _seconds_by_device(runs)
        # By the folders of their models, MODEL/seedN/model.
        members = tuple(Path(one).parts[-3:][0] for one in runs[0].scores.training.get("members", []))
        yield Row(
            task=task.name,
            task_label=task.label,
            model=name,
            label=runs[0].label,
            metric=metric,
            values=tuple(values.tolist()),
            mean=float(values.mean()),
            sd=float(values.std(ddof=1)) if len(values) > 1 else None,
            low=spread.low,
            high=spread.high,
            paper=reported[name],
            same_data=same_data,
            verdict=verdict.word,
            reason=verdict.reason,
            seconds=seconds,
            divided=divided,
            members=members,
            **gain,
        )


def _seconds_by_device(runs: Sequence[ScoredRun]) -> tuple[dict[str, float], bool]:
    """Return mean seconds of a model's runs by device, and whether some run was divided between two devices.

    The means are unknown where the cost of a run is.
    """
    costs = [whole_cost(run) for run in runs]
    is_known = [run.scores.cost.cpu_s is not None for run in runs]
    if not all(is_known):
        return {}, False
    known = [cost for cost in costs if cost is not None]
    seconds = {}
    for device in DEVICES:
        own = [spent for name, spent in known if name == device]
        if own:
            seconds[device] = sum(own) / len(own)
    return seconds, None in costs
