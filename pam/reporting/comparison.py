"""Ours beside the paper's: means over seeds, intervals, gains over the baseline, verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pam.config import Experiment
from pam.evaluation import bootstrap
from pam.evaluation.bootstrap import Interval
from pam.evaluation.metrics import Floats, Metric, metric_of
from pam.reporting.paper import PaperTable
from pam.reporting.runs import ScoredRun, TaskRuns, check_known
from pam.reporting.verdict import Verdict, judge_gain, judge_level


@dataclass(frozen=True)
class Gain:
    """How much better a model's mean is than the baseline's, in the metric's unit.

    It is positive where the model is better: where lower is better, as with perplexity, it is the
    baseline's mean minus the model's.
    """

    value: float
    interval: Interval
    p: float
    paper: float | None


@dataclass(frozen=True)
class Row:
    """One model on one task by one metric.

    Attributes:
        values: the metric for each seed, in ascending order of seeds.
        mean: mean over seeds.
        sd: standard deviation across seeds (n - 1 below); None for a single seed.
        interval: bootstrap interval of `mean` over units, seeds held fixed.
        paper: the paper's figure, shown also where its data are others than ours.
        same_data: whether the paper's figure was measured on this data set.
        gain: None for the baseline, and where the baseline was not run.
        cpu_s, gpu_s: mean over seeds of training plus decoding; None if unknown.
        members: models that it was joined from, whose trainings are their own cost.
    """

    task: str
    task_label: str
    model: str
    label: str
    metric: Metric
    values: tuple[float, ...]
    mean: float
    sd: float | None
    interval: Interval
    paper: float | None
    same_data: bool
    gain: Gain | None
    verdict: Verdict
    cpu_s: float | None
    gpu_s: float | None
    members: tuple[str, ...] = ()

    @property
    def seeds(self) -> int:
        return len(self.values)

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's figure, where both were measured on the same data."""
        return self.mean - self.paper if self.paper is not None and self.same_data else None


def compare(
    tasks: Sequence[TaskRuns],
    experiment: Experiment,
    patterns: Sequence[str],
    paper: PaperTable | None,
    first: bool = False,
) -> list[Row]:
    """One row per task, metric and model, in the order of the configuration.

    Args:
        patterns: names of metrics, or patterns such as `bleu_b*`; a task has those of its kind.
        paper: the figures to set beside ours; None for metrics that no paper reports.
        first: of each task's metrics take the first one only.

    Raises:
        UserError: no task has such a metric.
    """
    check_known(patterns, tasks)
    rows: list[Row] = []
    for task in tasks:
        metrics = [metric_of(name) for name in task.metrics(patterns)[: 1 if first else None]]
        models = _resample(task, metrics)
        for one in metrics:
            rows += _rows(task, models, one, experiment.baseline, paper)
    return rows


@dataclass(frozen=True)
class _Model:
    """A model's counts: per seed (seeds, columns), and resampled (seeds, resamples, columns)."""

    runs: list[ScoredRun]
    columns: tuple[str, ...]
    totals: Floats
    draws: Floats

    def values(self, metric: Metric) -> Floats:
        return metric.value(self.totals[:, self._places(metric)])

    def resampled(self, metric: Metric) -> Floats:
        """The mean over seeds in each resample, (resamples,)."""
        mean: Floats = metric.value(self.draws[..., self._places(metric)]).mean(axis=0)
        return mean

    def _places(self, metric: Metric) -> list[int]:
        return [self.columns.index(column) for column in metric.columns]


def _resample(task: TaskRuns, metrics: Sequence[Metric]) -> dict[str, _Model]:
    """The counts that these metrics need, of every model under the same draws."""
    columns = tuple(dict.fromkeys(column for one in metrics for column in one.columns))
    counts = np.stack([run.scores.counts().of(columns) for run in task.runs])
    totals, draws = counts.sum(axis=1), bootstrap.resampled_sums(counts)
    models, start = {}, 0
    for name, of_model in task.models.items():
        own = slice(start, start + len(of_model))
        models[name] = _Model(of_model, columns, totals[own], draws[own])
        start += len(of_model)
    return models


def _rows(
    task: TaskRuns,
    models: dict[str, _Model],
    metric: Metric,
    baseline: str,
    paper: PaperTable | None,
) -> list[Row]:
    same_data = task.config.paper is not None
    paper_row = task.config.paper or task.config.paper_reference
    figures = {
        name: paper.figure(metric.name, paper_row, name) if paper else None
        for name in [*models, baseline]
    }
    rows = []
    for name, model in models.items():
        spread = bootstrap.interval(model.resampled(metric))
        values = model.values(metric)
        gain = None
        if name == baseline:
            verdict = judge_level(figures[name], spread, same_data, len(values))
        elif baseline in models:
            gain = _gain(metric, model, models[baseline], figures[name], figures[baseline])
            seeds = min(len(values), len(models[baseline].runs))
            verdict = judge_gain(gain.paper, gain.interval, same_data, seeds)
        else:
            verdict = Verdict("cannot tell", "the baseline was not run")
        rows.append(
            Row(
                task=task.name,
                task_label=task.label,
                model=name,
                label=model.runs[0].label,
                metric=metric,
                values=tuple(values.tolist()),
                mean=float(values.mean()),
                sd=float(values.std(ddof=1)) if len(values) > 1 else None,
                interval=spread,
                paper=figures[name],
                same_data=same_data,
                gain=gain,
                verdict=verdict,
                cpu_s=_mean([run.scores.cost.cpu_s for run in model.runs]),
                gpu_s=_mean([run.scores.cost.gpu_s for run in model.runs]),
                members=_members(model.runs[0]),
            )
        )
    return rows


def _gain(
    metric: Metric,
    model: _Model,
    baseline: _Model,
    figure: float | None,
    baseline_figure: float | None,
) -> Gain:
    sign = -1.0 if metric.lower_is_better else 1.0
    value = sign * float(model.values(metric).mean() - baseline.values(metric).mean())
    differences = sign * (model.resampled(metric) - baseline.resampled(metric))
    known = figure is not None and baseline_figure is not None
    return Gain(
        value=value,
        interval=bootstrap.interval(differences),
        p=bootstrap.p_value(differences, value),
        paper=sign * (figure - baseline_figure) if known else None,  # type: ignore[operator]
    )


def _members(run: ScoredRun) -> tuple[str, ...]:
    """By the folders of their models, MODEL/seedN/model."""
    folders = run.scores.training.get("members", [])
    return tuple(Path(folder).parts[-3:][0] for folder in folders)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
