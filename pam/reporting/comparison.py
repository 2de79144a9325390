"""Compare our results with a paper's: means over seeds, intervals, gains, verdicts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from pam.evaluation import two_levels
from pam.evaluation.bootstrap import LEVEL, Interval
from pam.evaluation.metrics import Metric, metric_of
from pam.evaluation.two_levels import Estimate, Measured, Scatter
from pam.experiments.experiment import Experiment
from pam.reporting.catalogue import PaperTable, check_rows, refers_to_papers
from pam.reporting.cells import FINEST
from pam.reporting.items import TableSpec
from pam.reporting.runs import DEVICES, ScoredRun, TaskRuns, check_known, load_runs, whole_cost
from pam.runtime.errors import UserError


@dataclass(frozen=True)
class Inputs:
    """The files from which a table may be made."""

    experiment: Experiment
    papers: Mapping[str, PaperTable]
    scores: Sequence[Path] = ()
    predictions: Sequence[Path] = ()
    significance: Sequence[Path] = ()
    gold_scores: Sequence[Path] = ()
    analyses: Sequence[Path] = ()

    @cached_property
    def tasks(self) -> list[TaskRuns]:
        """The scored runs by task.

        Raises:
            UserError: they cannot be in one table, or a task names an unknown row of a paper.
        """
        check_rows(self.papers, self.experiment)
        return load_runs(self.scores, self.experiment)

    def title(self, spec: TableSpec) -> str:
        """Return a table's title, with the paper and table that it has the metrics of."""
        if spec.cites and refers_to_papers(self.experiment):
            return f"{spec.title} ({spec.cites})"
        return spec.title

    def paper(self, spec: TableSpec) -> PaperTable | None:
        """Return the paper's results that a table shows with ours."""
        if spec.paper is None or not refers_to_papers(self.experiment):
            return None
        return self.papers.get(spec.paper)


# The one rule of verdicts, for every table, the page and the claims.

LEAST_SEEDS = 3
MARGIN_OF_PERCENTAGES = 1.0  # for metrics between 0 and 100
MARGIN_OF_SHARES = 0.02  # for metrics between 0 and 1, and for CIDEr
MARGIN_OF_PERPLEXITY = 0.05  # a share of the paper's figure

_INTERVALS = (
    f"Intervals are {100 * LEVEL:g} % intervals of means over seeds, over test units (lemmas or"
    " sentences) and seeds together, in closed form: nothing is drawn. How much seeds scatter is"
    " pooled over the models of a task. A single seed has an interval over units alone, and its"
    " gain has none. p is of the same test as the interval, two-sided; `Holm` is p corrected for"
    " all gains of a task by one metric."
)
# One paragraph each on the page.
PARTS_OF_RULE: tuple[str, ...] = (
    _INTERVALS,
    f"With fewer than {LEAST_SEEDS} seeds of a model or the baseline nothing is judged, nor where"
    " the paper has no figure.",
    "A gain over the baseline is counted so that better is positive, in the paper and here. The"
    " verdict `agrees` if our interval excludes 0 on the side of the paper's gain, `contradicts` if"
    " it excludes 0 on the other side, else `cannot tell`. The sizes of both gains are not judged,"
    " as the paper's is of single runs and has no interval.",
    "The baseline is judged by its level, on the paper's own test set alone, so that the interval"
    " is over seeds alone, with a margin around the paper's figure:"
    f" {MARGIN_OF_PERCENTAGES:g} of metrics in per cent, {MARGIN_OF_SHARES:g} of shares and CIDEr,"
    f" {100 * MARGIN_OF_PERPLEXITY:g} % of a perplexity. It is `equivalent` if the interval lies"
    " within the margin, `differs` if wholly outside of it, else `agrees with` if the paper's"
    " figure lies in the interval, else `cannot tell`.",
    "The setting says whose data and size ours are: a verdict on other data, or at another size, is"
    " about the claim, not about the paper's figure.",
    "A gain is `better` or `worse` if its interval excludes 0, else `undecided`, with"
    f" {LEAST_SEEDS} seeds and more.",
)
PARTS_OF_RULE_OF_OWN_DATA: tuple[str, ...] = (
    _INTERVALS,
    "A gain over the baseline, counted so that better is positive, is `better` or `worse` if its"
    f" paired interval excludes 0, else `undecided`, with {LEAST_SEEDS} seeds and more.",
)
RULE = " ".join(PARTS_OF_RULE)
RULE_OF_OWN_DATA = " ".join(PARTS_OF_RULE_OF_OWN_DATA)
COMPARED = "Compared with "  # begins the heading of `better`, `worse` and `undecided`
RULE_NOTE = f"Verdict. {RULE}"
NOTE_OF_OWN_DATA = f"Comparison. {RULE_OF_OWN_DATA}"
Direction = Literal[
    "agrees", "contradicts", "cannot tell", "equivalent", "differs", "agrees with", "not judged"
]


class Verdict(NamedTuple):
    """A judgement of the paper's claim by our interval, with its reason."""

    direction: Direction
    reason: str


def outcome_of(low: float, high: float) -> str:
    """Return `better`, `worse` or `undecided` by a gain's interval."""
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    return "undecided"


def margin_of(metric: str, paper: float) -> float:
    """Return by how much a level may differ from the paper's and still count as the same."""
    scored = metric_of(metric)
    if scored.lower_is_better and scored.counted == "tokens":
        return MARGIN_OF_PERPLEXITY * paper
    if scored.decimals > 2:
        return MARGIN_OF_SHARES
    return MARGIN_OF_PERCENTAGES


def judge_gain(
    paper: float | None, ours: Interval | None, seeds: int, side: float | None = None
) -> Verdict:
    """Judge a gain by `RULE`.

    Args:
        paper: the paper's gain, None where it has no figure.
        ours: the paired interval of our gain.
        seeds: the fewer of the model's and the baseline's.
        side: the sign of the gain that is claimed, where the source claims one without a figure.
    """
    if side is None:
        if paper is None:
            return Verdict("not judged", "the paper has no figure")
        if paper == 0:
            return Verdict("not judged", "the paper's gain is 0")
        side = float(np.sign(paper))
    if seeds < LEAST_SEEDS:
        return Verdict("not judged", f"fewer than {LEAST_SEEDS} seeds")
    if ours is None:
        return Verdict("not judged", "the models were compared on a single test unit")

    # Seen from the side of the claim, on which gains are positive.
    low, high = sorted((side * ours.low, side * ours.high))
    if low > 0:
        return Verdict("agrees", "our interval excludes 0 on the side of the claim")
    if high < 0:
        return Verdict("contradicts", "our interval excludes 0 on the other side")
    return Verdict("cannot tell", "our interval has 0 in it")


def judge_level(
    paper: float | None, ours: Interval | None, seeds: int, margin: float, same_data: bool = True
) -> Verdict:
    """Judge a level, such as the baseline's, by `RULE`."""
    if paper is None:
        return Verdict("not judged", "the paper has no figure")
    if not same_data:
        return Verdict("not judged", "other data than the paper's")
    if seeds < LEAST_SEEDS or ours is None:
        return Verdict("not judged", f"fewer than {LEAST_SEEDS} seeds")

    where = f"our interval, {ours.low:.4g} to {ours.high:.4g},"
    if paper - margin <= ours.low and ours.high <= paper + margin:
        return Verdict("equivalent", f"{where} lies within {margin:g} of the paper's figure")
    if ours.low > paper + margin or ours.high < paper - margin:
        return Verdict("differs", f"{where} lies more than {margin:g} from the paper's figure")
    if paper in ours:
        return Verdict("agrees with", f"{where} has the paper's figure and more than {margin:g}")
    return Verdict(
        "cannot tell", f"{where} excludes the paper's figure, not all that is within {margin:g}"
    )


def setting_of(experiment: Experiment, task: str, paper: PaperTable | None, seeds: str) -> str:
    """Say whose data and size a task has, and how many seeds.

    For example `the paper's data and size, 5 seeds`.
    """
    data = "other data" if experiment.tasks[task].paper is None else "the paper's data"
    size = _size_of(experiment, task, paper.size) if paper else ""

    if data == "the paper's data" and size == "the paper's size":
        return f"the paper's data and size, {seeds}"
    return ", ".join(filter(None, [data, size, seeds]))


def _size_of(experiment: Experiment, task: str, papers: Mapping[str, int]) -> str:
    """Compare the sizes of a task's network with the paper's.

    Args:
        papers: the sizes that the paper states, by keys of `network`; none: the result is empty.
    """
    # A task may be evaluated with the models of another one, which has the network.
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

    A gain says how much better a model's mean is than the baseline's, in the metric's unit. It is
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
    # ends of the interval of `mean` over units and seeds; of a single seed over units
    low: float
    high: float
    paper: float | None  # the paper's value, shown also where its data are not ours
    same_data: bool  # whether the paper's value was measured on this data set
    direction: Direction
    setting: str
    # how many seeds the judgement is of, such as `5 seeds`: the baseline's and the model's
    seeds_text: str
    reason: str
    # device -> seconds of training plus decoding, mean over the seeds with both on that device;
    # of an ensemble with those of its members
    seconds: Mapping[str, float]
    # whether a seed, left out of these means, was trained on one device and decoded on another
    divided: bool
    compared_seeds: int  # the fewer of the model's and the baseline's
    # models of which it is an ensemble, whose trainings are part of its cost
    members: tuple[str, ...]
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    p: float | None = None
    p_holm: float | None = None  # corrected for all models of the task by this metric
    # None also where the paper has no value of the model or of the baseline
    paper_gain: float | None = None

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return len(self.values)

    @property
    def cpu_s(self) -> float | None:
        """CPU seconds of the seeds that ran on no other device.

        None where no seed did, or the seconds are unknown.
        """
        return self.seconds.get("CPU")

    @property
    def gpu_s(self) -> float | None:
        """GPU seconds of the seeds that ran on a GPU; 0 where all seeds ran on a CPU."""
        only_cpu = list(self.seconds) == ["CPU"] and not self.divided
        if only_cpu:
            return 0.0
        return self.seconds.get("GPU")

    @property
    def outcome(self) -> str | None:
        """`better`, `worse` or `undecided`; None where there is no gain, or too few seeds."""
        if self.gain_low is None or self.gain_high is None or self.compared_seeds < LEAST_SEEDS:
            return None
        return outcome_of(self.gain_low, self.gain_high)

    @property
    def digits(self) -> int:
        """Digits after the point: the metric's, or more where these would hide a difference.

        They tell the ends of an interval apart, and a gain that is judged from no gain.
        """
        intervals = [(self.low, self.high), (self.gain_low, self.gain_high)]
        if self.outcome in ("better", "worse"):
            intervals += [(0.0, self.gain), (0.0, self.gain_low), (0.0, self.gain_high)]
        # Ends that are equal at the finest are equal at any number of digits.
        intervals = [ends for ends in intervals if None not in ends and not _alike(ends, FINEST)]

        digits = self.metric.decimals
        while digits < FINEST and any(_alike(ends, digits) for ends in intervals):
            digits += 1
        return digits

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's value, where both were measured on the same data."""
        if self.paper is None or not self.same_data:
            return None
        return self.mean - self.paper


def _alike(ends: tuple[float | None, float | None], digits: int) -> bool:
    """Check whether both ends of an interval are the same when rounded."""
    low, high = ends
    return round(low or 0.0, digits) == round(high or 0.0, digits)


def frame_of(rows: Sequence[Row]) -> pd.DataFrame:
    """Return the rows as a frame, with `n` seeds and the metric's name."""
    frame = pd.DataFrame(rows, columns=Row._fields, dtype=object)
    derived = {
        name: pd.Series([getattr(row, name) for row in rows], dtype=object)
        for name in ("outcome", "difference", "cpu_s", "gpu_s")
    }
    return frame.assign(
        metric=[row.metric.name for row in rows], n=[row.seeds for row in rows], **derived
    )


def label_of_baseline(rows: Sequence[Row], baseline: str) -> str:
    """Return the baseline's label, or its name if it was not run."""
    return next((row.label for row in rows if row.model == baseline), baseline)


def compare(
    tasks: Sequence[TaskRuns],
    experiment: Experiment,
    patterns: Sequence[str],
    paper: PaperTable | None,
    first: bool = False,
    only: Collection[str] | None = None,
) -> list[Row]:
    """Return one row per task, metric and model, in the order of the configuration.

    Args:
        patterns: names of metrics, or patterns such as `bleu_b*`.
        paper: the results to show with ours; None for metrics that no paper reports.
        first: take only the first of a task's metrics.
        only: models to return, None for all; seeds of all of them tell how much seeds scatter.

    Raises:
        UserError: no task has such a metric.
    """
    check_known(patterns, tasks)

    rows: list[Row] = []
    for task in tasks:
        metrics = [metric_of(name) for name in task.metrics(patterns)]
        if first:
            metrics = metrics[:1]

        for metric in metrics:
            measured = {model: measure(metric, runs) for model, runs in task.models.items()}
            of_metric = _with_members(list(_rows(task, metric, measured, experiment, paper)))
            rows += _corrected([row for row in of_metric if only is None or row.model in only])

    return rows


# The metric of a task's models at a glance. A task shows the first one that it has. The later ones
# stand in where scoring has left out those before them.
QUALITIES = (
    "accuracy",
    "bleu_b*",
    "bleu_characters_b*",
    "rouge1",
    "cider",
    "chrf_b*",
    "rouge_coco",
)


def compare_sweeps(tasks: Sequence[TaskRuns], experiment: Experiment) -> list[Row]:
    """Return the rows of the models of sweeps, with those of the baseline, by task.

    The models are compared by the first metric of each task, and with the baseline alone, so that
    Holm's correction is for the gains of the sweeps.

    Raises:
        UserError: no model of a sweep was scored, or none by such a metric.
    """
    points = experiment.points()
    swept_tasks = [task for task in tasks if points.keys() & task.models.keys()]
    if not swept_tasks:
        raise UserError("no scores of a sweep", hint="name scores.json of the models of a sweep")

    models = {*points, experiment.baseline}
    return compare(swept_tasks, experiment, QUALITIES, None, first=True, only=models)


def _corrected(rows: Sequence[Row]) -> list[Row]:
    """Add p by Holm's correction for the gains of a task by one metric.

    The same outputs read by another metric, such as BLEU of another beam, are no more hypotheses.
    """
    p_values = [row.p for row in rows if row.p is not None]
    corrected = iter(two_levels.holm(p_values))
    return [row if row.p is None else row._replace(p_holm=next(corrected)) for row in rows]


def measure(metric: Metric, runs: Sequence[ScoredRun]) -> Measured:
    """Measure a model by the counts of its runs.

    An output that no training made, such as a text's first sentences, has no seeds.
    """
    counts = np.stack([run.scores.counts().of(metric.columns) for run in runs])
    return Measured.of(counts, metric.value, repeatable=not runs[0].scores.training)


def sign_of(metric: Metric) -> float:
    """Return the factor that makes better values the larger ones: -1 if lower is better, else 1."""
    return -1.0 if metric.lower_is_better else 1.0


def gain_of(
    model: Measured, base: Measured, scatter: Scatter, sign: float = 1.0
) -> Estimate | None:
    """Estimate the gain of a model over another, positive where it is better.

    Args:
        sign: -1 where lower is better.

    Returns:
        None where nothing tells how much a value varies: a model that was trained has a single
        seed, or a single test unit counts.
    """
    for compared in (model, base):
        if compared.seeds < 2 and not compared.repeatable:
            return None
        if compared.influences.shape[1] == 1 or not np.isfinite(compared.influences).all():
            return None
    return two_levels.gain(model, base, scatter).times(sign)


def _rows(
    task: TaskRuns,
    metric: Metric,
    measured: Mapping[str, Measured],
    experiment: Experiment,
    paper: PaperTable | None,
) -> Iterator[Row]:
    """Yield a row for each model."""
    same_data = task.config.paper is not None
    paper_row = task.config.paper or task.config.paper_reference
    reported: dict[str, float | None] = dict.fromkeys([*measured, experiment.baseline])
    if paper:
        reported = {model: paper.value(metric.name, paper_row, model) for model in reported}

    scatter = Scatter.of(measured.values())
    sign = sign_of(metric)
    for model, of_model in measured.items():
        runs = task.models[model]
        spread = two_levels.level(of_model, scatter).interval()
        counts = [of_model.seeds]
        gain: dict[str, float | None] = {}

        if model == experiment.baseline:
            verdict = _judge_baseline(metric, reported[model], of_model, same_data)
        elif experiment.baseline in measured:
            of_baseline = measured[experiment.baseline]
            counts = [of_baseline.seeds]
            if not of_model.repeatable:
                counts.append(of_model.seeds)
            our_gain = gain_of(of_model, of_baseline, scatter, sign)
            paper_gain = _paper_gain(metric, reported[model], reported[experiment.baseline])
            gain = {"gain": sign * (of_model.mean - of_baseline.mean), "paper_gain": paper_gain}
            gain_interval = None
            if our_gain:
                gain_interval = our_gain.interval()
                gain["p"] = our_gain.p
                gain["gain_low"] = gain_interval.low
                gain["gain_high"] = gain_interval.high
            verdict = judge_gain(paper_gain, gain_interval, min(counts))
        else:
            verdict = Verdict("not judged", "the baseline was not run")

        seconds, divided = _seconds_by_device(runs)
        yield Row(
            task=task.name,
            task_label=task.label,
            model=model,
            label=runs[0].label,
            metric=metric,
            values=tuple(of_model.values.tolist()),
            mean=of_model.mean,
            sd=float(of_model.values.std(ddof=1)) if of_model.seeds > 1 else None,
            low=spread.low,
            high=spread.high,
            paper=reported[model],
            same_data=same_data,
            direction=verdict.direction,
            setting=setting_of(experiment, task.name, paper, seeds_text(counts)),
            seeds_text=seeds_text(counts),
            reason=verdict.reason,
            seconds=seconds,
            divided=divided,
            compared_seeds=min(counts),
            members=_members_of(runs[0]),
            **gain,
        )


def _judge_baseline(
    metric: Metric, paper: float | None, ours: Measured, same_data: bool
) -> Verdict:
    """Judge the baseline's level, with the margin of the metric.

    The paper tested on the same units, so that only seeds differ.
    """
    margin = 0.0
    if paper is not None:
        margin = margin_of(metric.name, paper)
    interval = None
    if ours.seeds > 1:
        interval = two_levels.level_on_these_units(ours).interval()
    return judge_level(paper, interval, ours.seeds, margin, same_data)


def _paper_gain(metric: Metric, model: float | None, baseline: float | None) -> float | None:
    """Return the paper's gain, positive where the model is better."""
    if model is None or baseline is None:
        return None
    return sign_of(metric) * (model - baseline)


def _members_of(run: ScoredRun) -> tuple[str, ...]:
    """Return the models of an ensemble, by the paths `MODEL/seedN/model` of their weights."""
    members = run.scores.training.get("members", [])
    return tuple(Path(member).parts[-3:][0] for member in members)


def _with_members(rows: Sequence[Row]) -> list[Row]:
    """Add to the seconds of ensembles those of their members, in the rows of a task.

    An ensemble's cost is unknown where that of a member is, or where a member was not compared.
    """
    by_model = {row.model: row for row in rows}

    def seconds(model: str) -> dict[str, float]:
        if model not in by_model:
            return {}

        row = by_model[model]
        parts = [row.seconds, *map(seconds, row.members)]
        return {
            device: sum(part[device] for part in parts)
            for device in DEVICES
            if all(device in part for part in parts)
        }

    return [row._replace(seconds=seconds(row.model)) for row in rows]


def _seconds_by_device(runs: Sequence[ScoredRun]) -> tuple[dict[str, float], bool]:
    """Return mean seconds of a model's runs by device.

    The second value says whether some run was trained on one device and decoded on another. If the
    cost of one run is unknown, there are no means.
    """
    costs = [whole_cost(run) for run in runs]
    if any(run.scores.cost.cpu_s is None for run in runs):
        return {}, False

    seconds = {}
    for device in DEVICES:
        on_device = [cost[1] for cost in costs if cost is not None and cost[0] == device]
        if on_device:
            seconds[device] = sum(on_device) / len(on_device)

    return seconds, None in costs
