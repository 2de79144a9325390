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
from pam.evaluation.bootstrap import LEVEL, MANY, RESAMPLES, RESAMPLES_OF_MANY, Draws, Interval
from pam.evaluation.metrics import Floats, Metric, metric_of
from pam.reporting.catalogue import PaperTable, TableSpec, check_rows, refers_to_papers
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
        """The scored runs; a `UserError` if they cannot be in one table, or a task names an unknown
        row of a paper.
        """
        check_rows(self.papers, self.experiment)
        return load_runs(self.scores, self.experiment)

    def title(self, spec: TableSpec) -> str:
        """A table's title with the experiment's."""
        own = self.experiment.title
        title = spec.title
        if spec.cites and refers_to_papers(self.experiment):
            title = f"{title} ({spec.cites})"
        return f"{title}: {own}" if own else title

    def paper(self, spec: TableSpec) -> PaperTable | None:
        """The paper's results that a table shows with ours."""
        if spec.paper is None or not refers_to_papers(self.experiment):
            return None
        return self.papers.get(spec.paper)


# The one rule of verdicts, for every table, the page and the claims.

LEAST_SEEDS = 3
MARGIN_OF_PERCENTAGES = 1.0  # of metrics between 0 and 100
MARGIN_OF_SHARES = 0.02  # of metrics between 0 and 1, and of CIDEr
MARGIN_OF_PERPLEXITY = 0.05  # a share of the paper's figure

_INTERVALS = (
    f"Intervals are {100 * LEVEL:g} % bootstrap intervals of means over seeds, over two levels:"
    f" test units (lemmas or sentences; {RESAMPLES:,} draws, {RESAMPLES_OF_MANY:,} of more than"
    f" {MANY:,} units) and seeds, with Student's tails for few seeds. That of a single seed is over"
    " units alone, and its gain has none. p is two-sided; `Holm` is p corrected for all gains of"
    " the table."
)
RULE = (
    f"{_INTERVALS} With fewer than {LEAST_SEEDS} seeds of a model or the baseline nothing is"
    " judged, nor where the paper has no figure. A gain over the baseline is counted so that"
    " better is positive, in the paper and here, and judged twice. Direction: `agrees` if our"
    " interval excludes 0 on the side of the paper's gain, `contradicts` if it excludes 0 on the"
    " other side, else `cannot tell`. Size: `larger` or `smaller` if our interval lies wholly"
    " beyond the paper's gain, away from 0 or towards it; else `cannot tell` if it has 0 in it"
    " too, else `within`. The baseline is judged by its level, on the paper's own data alone, with"
    f" a margin around the paper's figure: {MARGIN_OF_PERCENTAGES:g} of metrics in per cent,"
    f" {MARGIN_OF_SHARES:g} of shares and CIDEr, {100 * MARGIN_OF_PERPLEXITY:g} % of a perplexity."
    " It is `equivalent` if our interval lies within the margin, `differs` if wholly outside of"
    " it, else `agrees with` if the paper's figure lies in our interval, else `cannot tell`; its"
    " size says where the paper's figure lies. The setting says whose data and size ours are: a"
    " verdict on other data, or at another size, is about the claim, not about the paper's figure."
    " A gain is `better` or `worse` if its interval excludes 0, else `undecided`, with"
    f" {LEAST_SEEDS} seeds and more."
)
RULE_OF_OWN_DATA = (
    f"{_INTERVALS} A gain over the baseline, counted so that better is positive, is `better` or"
    f" `worse` if its paired interval excludes 0, else `undecided`, with {LEAST_SEEDS} seeds and"
    " more."
)
RULE_NOTE = f"Verdict. {RULE}"
NOTE_OF_OWN_DATA = f"Comparison. {RULE_OF_OWN_DATA}"
Direction = Literal[
    "agrees", "contradicts", "cannot tell", "equivalent", "differs", "agrees with", "not judged"
]
Size = Literal["within", "larger", "smaller", "cannot tell", ""]


class Verdict(NamedTuple):
    """What our interval says of the paper's claim, in two words, and what decided it."""

    direction: Direction
    size: Size  # empty where the paper has no figure, or nothing is judged
    reason: str

    @property
    def words(self) -> str:
        """Direction and size, such as `agrees, within`; what both cannot tell is said once."""
        return ", ".join(dict.fromkeys(filter(None, [self.direction, self.size])))


def margin_of(metric: str, paper: float) -> float:
    """Return by how much a level may differ from the paper's and still count as the same."""
    known = metric_of(metric)
    if known.lower_is_better and known.counted == "tokens":
        return MARGIN_OF_PERPLEXITY * paper
    if known.decimals > 2:
        return MARGIN_OF_SHARES
    return MARGIN_OF_PERCENTAGES


def judge_gain(
    paper: float | None, ours: Interval | None, seeds: int, side: float | None = None
) -> Verdict:
    """Judge a gain by `RULE`.

    Args:
        paper: the paper's gain, None where it has no figure. ours: the paired interval of our gain.
        seeds: the fewer of the model's and the baseline's.
        side: the sign of the gain that is claimed, where the source claims one without a figure.
    """
    if side is None:
        side = np.sign(paper) if paper else None
    if side is None:
        reason = "the paper has no figure" if paper is None else "the paper's gain is 0"
        return Verdict("not judged", "", reason)
    if seeds < LEAST_SEEDS or ours is None:
        return Verdict("not judged", "", f"fewer than {LEAST_SEEDS} seeds")

    low, high = sorted((side * ours.low, side * ours.high))
    direction: Direction = "cannot tell"
    reason = "our interval has 0 in it"
    if low > 0:
        direction = "agrees"
        reason = "our interval excludes 0 on the side of the claim"
    elif high < 0:
        direction = "contradicts"
        reason = "our interval excludes 0 on the other side"
    if paper is None:
        return Verdict(direction, "", reason)

    size: Size = "within"
    if low > side * paper:
        size = "larger"
    elif high < side * paper:
        size = "smaller"
    elif direction == "cannot tell":
        size = "cannot tell"
    where = "within" if size in ("within", "cannot tell") else "outside"
    return Verdict(direction, size, f"{reason}; the paper's gain lies {where} it")


def judge_level(
    paper: float | None, ours: Interval, seeds: int, margin: float, same_data: bool = True
) -> Verdict:
    """Judge a level, such as the baseline's, by `RULE`."""
    if paper is None:
        return Verdict("not judged", "", "the paper has no figure")
    if not same_data:
        return Verdict("not judged", "", "other data than the paper's")
    if seeds < LEAST_SEEDS:
        return Verdict("not judged", "", f"fewer than {LEAST_SEEDS} seeds")

    size: Size = "within"
    if ours.low > paper:
        size = "larger"
    elif ours.high < paper:
        size = "smaller"
    if paper - margin <= ours.low and ours.high <= paper + margin:
        return Verdict(
            "equivalent", size, f"our interval lies within {margin:g} of the paper's figure"
        )
    if ours.low > paper + margin or ours.high < paper - margin:
        return Verdict(
            "differs", size, f"our interval lies more than {margin:g} from the paper's figure"
        )
    if size == "within":
        reason = (
            f"the paper's figure lies in our interval, which is wider than the margin of {margin:g}"
        )
        return Verdict("agrees with", size, reason)
    return Verdict(
        "cannot tell",
        size,
        f"our interval excludes the paper's figure, not all that is within {margin:g}",
    )


def setting_of(experiment: Experiment, task: str, paper: PaperTable | None, seeds: str) -> str:
    """Say whose data and size a task has, and of how many seeds: `the paper's data and size, 5
    seeds`.
    """
    same_data = experiment.tasks[task].paper is not None
    size = _size_of(experiment, task, paper.size) if paper else ""
    if same_data and size == "the paper's size":
        where = "the paper's data and size"
    else:
        where = ", ".join(filter(None, ["the paper's data" if same_data else "other data", size]))
    return f"{where}, {seeds}"


def _size_of(experiment: Experiment, task: str, papers: Mapping[str, int]) -> str:
    """Compare the sizes of a task's network with those that the paper states; empty where it states
    none.
    """
    overrides = experiment.tasks[experiment.training_task(task)].network
    ours = experiment.network.model_dump() | overrides
    differences = [ours[name] - number for name, number in papers.items()]
    if not differences:
        return ""
    if any(difference < 0 for difference in differences):
        return "smaller"
    if any(difference > 0 for difference in differences):
        return "larger"
    return "the paper's size"


def seeds_text(counts: Sequence[int]) -> str:
    """Return `5 seeds`, `1-3 seeds`, `1 seed`."""
    ends = list(dict.fromkeys([min(counts), max(counts)]))
    return f"{'-'.join(map(str, ends))} seed{'s' * (ends != [1])}"


# The comparison: one row per task, metric and model.


class Row(NamedTuple):
    """One model on one task by one metric.

    A gain says how much better a model's mean is than the baseline's, in the metric's unit,
    positive also where lower is better, as with perplexity. It is None for the baseline, and where
    the baseline was not run.
    """

    task: str
    task_label: str
    model: str
    label: str
    metric: Metric
    values: tuple[float, ...]  # the metric for each seed, in ascending order of seeds
    mean: float
    sd: float | None  # over seeds, n - 1 below
    # ends of the bootstrap interval of `mean` over units and seeds; of one seed over units
    low: float
    high: float
    paper: float | None  # the paper's value, shown also where its data are others than ours
    same_data: bool  # whether the paper's value was measured on this data set
    direction: Direction
    size: Size
    setting: str
    reason: str
    # by device, of training plus decoding: mean over the seeds with both on that one
    seconds: Mapping[str, float]
    # whether a seed was trained on one device and decoded on another one, which no mean counts
    divided: bool
    compared_seeds: int  # the fewer of the model's and the baseline's
    # models of which it is an ensemble, whose trainings are their own cost
    members: tuple[str, ...]
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    p: float | None = None
    p_holm: float | None = None  # corrected for all rows that were compared together
    paper_gain: float | None = (
        None  # None also where the paper has no value of the model or of the baseline
    )

    @property
    def seeds(self) -> int:
        return len(self.values)

    @property
    def cpu_s(self) -> float | None:
        """Processor seconds, of seeds that ran on no other device; None where no seed did or they
        are unknown.
        """
        return self.seconds.get("CPU")

    @property
    def gpu_s(self) -> float | None:
        """The same of GPU seconds; 0 where all seeds ran on the processor."""
        only_cpu = list(self.seconds) == ["CPU"] and not self.divided
        return 0.0 if only_cpu else self.seconds.get("GPU")

    @property
    def told(self) -> str | None:
        """What the test says of the gain; None where there is none, or too few seeds."""
        if self.gain_low is None or self.gain_high is None or self.compared_seeds < LEAST_SEEDS:
            return None
        if self.gain_low > 0:
            return "better"
        return "worse" if self.gain_high < 0 else "undecided"

    @property
    def verdict(self) -> str:
        """Direction and size in two words."""
        return Verdict(self.direction, self.size, self.reason).words

    @property
    def digits(self) -> int:
        """Digits after the point: the metric's, and as many more as tell the ends of its intervals
        from each other.
        """
        pairs = [(self.low, self.high), (self.gain_low, self.gain_high)]
        ends = [pair for pair in pairs if None not in pair and not _alike(pair, FINEST)]
        return next(
            (
                n
                for n in range(self.metric.decimals, FINEST)
                if not any(_alike(one, n) for one in ends)
            ),
            FINEST,
        )

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's value, where both were measured on the same data."""
        return self.mean - self.paper if self.paper is not None and self.same_data else None


def _alike(ends: tuple[float | None, float | None], digits: int) -> bool:
    low, high = (one and round(one, digits) for one in ends)
    return low == high


def frame_of(rows: Sequence[Row]) -> pd.DataFrame:
    """The rows as a frame, with `n` seeds, the metric's name and both words of the verdict."""
    frame = pd.DataFrame(rows, columns=Row._fields, dtype=object)
    properties = ("difference", "cpu_s", "gpu_s", "verdict")
    derived = {
        name: pd.Series([getattr(row, name) for row in rows], dtype=object) for name in properties
    }
    return frame.assign(
        metric=[row.metric.name for row in rows], n=[row.seeds for row in rows], **derived
    )


def compare(
    tasks: Sequence[TaskRuns],
    experiment: Experiment,
    patterns: Sequence[str],
    paper: PaperTable | None,
    first: bool = False,
) -> list[Row]:
    """One row per task, metric and model, in the order of the configuration; a UserError if no task
    has such a metric.

    Args:
        patterns: names of metrics, or patterns such as `bleu_b*`; first: take only the first of a
            task's.
        paper: the results to show with ours; None for metrics that no paper reports.
    """
    check_known(patterns, tasks)
    rows: list[Row] = []
    for task in tasks:
        metrics = [metric_of(name) for name in task.metrics(patterns)[: 1 if first else None]]
        columns = list(dict.fromkeys(column for one in metrics for column in one.columns))
        resampled = Resampled.of(task.models, columns)
        for metric in metrics:
            measured = {model: resampled.measured(metric, model) for model in task.models}
            rows += _rows(task, metric, measured, experiment, paper)
    return _corrected(rows)


def _corrected(rows: Sequence[Row]) -> list[Row]:
    """Add p by Holm's correction for all gains of the rows."""
    p_values = [row.p for row in rows if row.p is not None]
    corrected = iter(bootstrap.holm(p_values))
    return [row if row.p is None else row._replace(p_holm=next(corrected)) for row in rows]


class Measured(NamedTuple):
    """One model on one task by one metric."""

    values: Floats  # (seeds,)
    draws: Draws  # of their mean


class Resampled(NamedTuple):
    """Sums of counts over units, by model: all models by all metrics are seen under the same draws
    of units.
    """

    columns: list[str]
    totals: dict[str, Floats]  # (seeds, columns)
    draws: dict[str, Floats]  # (seeds, resamples, columns)

    @classmethod
    def of(cls, models: Mapping[str, Sequence[ScoredRun]], columns: list[str]) -> Resampled:
        """Draw the units of all runs of a task at once."""
        if not models:
            return cls([], {}, {})

        counts = {
            model: np.stack([run.scores.counts().of(columns) for run in runs])
            for model, runs in models.items()
        }
        ends = np.cumsum([len(seeds) for seeds in counts.values()])[:-1]
        draws = np.split(bootstrap.resampled_sums(np.concatenate(list(counts.values()))), ends)
        totals = {model: seeds.sum(axis=1) for model, seeds in counts.items()}
        return cls(columns, totals, dict(zip(counts, draws, strict=True)))

    def measured(self, metric: Metric, model: str) -> Measured:
        """Measure a model by a metric of these counts."""
        places = [self.columns.index(column) for column in metric.columns]
        values = metric.value(self.totals[model][:, places])
        means = metric.value(self.draws[model][..., places]).mean(axis=0)
        return Measured(values, bootstrap.draws_over_seeds(values, means, model))


class Gain(NamedTuple):
    """The gain of one model over another, positive where it is better; no interval of a single
    seed.
    """

    value: float
    interval: Interval | None
    p: float | None


def gain_of(mine: Measured, base: Measured, metric: Metric, repeatable: bool = False) -> Gain:
    """Compare two models.

    Args:
        repeatable: whether no training made the first one, so that one seed of it is all that there
            is.
    """
    sign = -1.0 if metric.lower_is_better else 1.0
    value = sign * float(mine.values.mean() - base.values.mean())
    if len(base.values) < 2 or (len(mine.values) < 2 and not repeatable):
        return Gain(value, None, None)
    differences = mine.draws.minus(base.draws).times(sign).spread()
    return Gain(value, bootstrap.interval(differences), bootstrap.p_value(differences, value))


def _rows(
    task: TaskRuns,
    metric: Metric,
    measured: Mapping[str, Measured],
    experiment: Experiment,
    paper: PaperTable | None,
) -> Iterator[Row]:
    """Return a row for each model."""
    baseline = experiment.baseline
    same_data = task.config.paper is not None
    paper_row = task.config.paper or task.config.paper_reference
    reported = {
        name: paper.value(metric.name, paper_row, name) if paper else None
        for name in [*measured, baseline]
    }
    sign = -1.0 if metric.lower_is_better else 1.0
    for name, own in measured.items():
        runs = task.models[name]
        spread = bootstrap.interval(own.draws.spread())
        counts = [len(own.values)]
        gain: dict[str, float | None] = {}
        verdict = Verdict("not judged", "", "the baseline was not run")
        if name == baseline:
            reference = reported[name]
            margin = 0.0 if reference is None else margin_of(metric.name, reference)
            verdict = judge_level(reference, spread, counts[0], margin, same_data)
        elif baseline in measured:
            base = measured[baseline]
            # What no training made, such as the first sentences of a text, has no seeds to draw.
            repeatable = not runs[0].scores.training
            counts = [len(base.values)] if repeatable else [len(own.values), len(base.values)]
            found = gain_of(own, base, metric, repeatable)
            mine, other = reported[name], reported[baseline]
            paper_gain = None if mine is None or other is None else sign * (mine - other)
            verdict = judge_gain(paper_gain, found.interval, min(counts))
            gain = {
                "gain": found.value,
                "gain_low": found.interval.low if found.interval else None,
                "gain_high": found.interval.high if found.interval else None,
                "p": found.p,
                "paper_gain": paper_gain,
            }
        seconds, divided = _seconds_by_device(runs)
        # By the folders of their models, MODEL/seedN/model.
        members = tuple(
            Path(one).parts[-3:][0] for one in runs[0].scores.training.get("members", [])
        )
        yield Row(
            task=task.name,
            task_label=task.label,
            model=name,
            label=runs[0].label,
            metric=metric,
            values=tuple(own.values.tolist()),
            mean=float(own.values.mean()),
            sd=float(own.values.std(ddof=1)) if len(own.values) > 1 else None,
            low=spread.low,
            high=spread.high,
            paper=reported[name],
            same_data=same_data,
            direction=verdict.direction,
            size=verdict.size,
            setting=setting_of(experiment, task.name, paper, seeds_text(counts)),
            reason=verdict.reason,
            seconds=seconds,
            divided=divided,
            compared_seeds=min(counts),
            members=members,
            **gain,
        )


def _seconds_by_device(runs: Sequence[ScoredRun]) -> tuple[dict[str, float], bool]:
    """Return mean seconds of a model's runs by device, and whether some run was divided between two
    devices.

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
