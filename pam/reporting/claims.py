"""Judge the papers' claims by the stored runs.

Every figure and every verdict is computed, none is written by hand. `docs/claims.yaml` names for
each claim its experiment, task, models, metric and beam, with the source's words. `outcome`
computes the rest by the rule of `pam.reporting.comparison`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator

from pam.evaluation import bootstrap
from pam.evaluation.attention import Analysis
from pam.evaluation.bootstrap import RESAMPLES, Interval
from pam.evaluation.inputs import load
from pam.evaluation.metrics import Floats, metric_of, percentage
from pam.experiments.config import Experiment
from pam.experiments.parsing import Strict, parse
from pam.experiments.yaml import read_yaml
from pam.reporting.catalogue import PaperTable
from pam.reporting.comparison import (
    LEAST_SEEDS,
    Direction,
    Measured,
    Resampled,
    Verdict,
    judge_gain,
    judge_level,
    margin_of,
    seeds_text,
    setting_of,
    sign_of,
)
from pam.reporting.runs import ScoredRun, load_runs, processor_seconds
from pam.runtime.errors import UserError

# how much a ratio of times may differ from the source's and still count as the same
RATIO_MARGIN = 0.1
HIGH_ENTROPY = 1.0  # nats from which attention counts as uncertain

LEVELS: Mapping[Direction, Direction] = {
    "equivalent": "agrees",
    "differs": "contradicts",
    "agrees with": "cannot tell",
}
"""The verdicts on a level in the words of those on a gain.

A wide interval that has the paper's figure in it tells nothing.
"""


class Claim(Strict):
    """One claim of a source, with the stored runs that answer it."""

    claim: str = Field(description="the claim in a few words, without a figure of ours")
    says: str = Field("", description="the source's sentence, or empty for a cell of a table")
    where: str = Field(description="where it stands in the source")
    experiment: str = Field(description="folder under results/reference")
    task: str
    models: list[str] = Field(
        min_length=1,
        description="one model: its level; several: the first is better than each of the others",
    )
    metric: str = Field(description="a metric, or a key of `MEASURES`")
    beam: int | None = None
    over: str = Field(
        "", description="of one model, a metric that it is better by than by this one"
    )
    table: str = Field("", description="table of paper_results.yaml with the source's figure")
    alike: bool = Field(False, description="the claim is that both models are alike")
    why: str = Field(description="what a reader has to know, in one line, without figures of ours")
    main: bool = Field(False, description="whether it stands in README too")

    @property
    def measure(self) -> str:
        """The metric's name with the beam."""
        return self._of_beam(self.metric)

    @property
    def other_measure(self) -> str:
        """The name of `over` with the beam."""
        return self._of_beam(self.over)

    def _of_beam(self, metric: str) -> str:
        """Return the name of a metric with the claim's beam, if it has one."""
        if self.beam is None:
            return metric
        return f"{metric}_b{self.beam}"


class Source(Strict):
    """A paper or lecture with its claims."""

    paper: str
    claims: list[Claim]
    open: list[str] = Field(
        [], description="claims without a run that can be judged, in a few words each"
    )

    @model_validator(mode="after")
    def _each_once(self) -> Source:
        names = [claim.claim for claim in self.claims]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"claimed twice: {', '.join(sorted(twice))}")
        return self


def load_sources(path: Path) -> list[Source]:
    """Read the file of claims.

    Raises:
        UserError: the file is no such file; the error names the line.
    """
    return [
        parse(Source, content, path, [str(number)])
        for number, content in enumerate(read_yaml(path))
    ]


class Outcome(NamedTuple):
    """The answer of our runs to a claim."""

    verdict: Verdict
    paper: float | None  # the source's figure
    ours: float
    interval: Interval | None
    p: float | None
    p_holm: float | None
    setting: str
    unit: str  # `ratio`, `gain` or `level`
    digits: int

    @property
    def word(self) -> str:
        """`agrees`, `contradicts`, `cannot tell` or `not judged`, for levels as for gains."""
        return LEVELS.get(self.verdict.direction, self.verdict.direction)


# Quantities of a run besides its scores, by seed.


def _from_bins(low: float, high: float) -> Callable[[Analysis], float]:
    """Return the function that measures accuracy at some entropies of attention.

    It counts in per cent over target symbols with an entropy of `low` up to `high` nats.
    """

    def accuracy(analysis: Analysis) -> float:
        bins = analysis.entropy
        inside = [index for index, edge in enumerate(bins.edges[:-1]) if low <= edge < high]
        correct = sum(bins.correct[index] for index in inside)
        return 100 * correct / sum(bins.count[index] for index in inside)

    return accuracy


def _mean_entropy(analysis: Analysis) -> float:
    """Return the mean entropy of attention in nats."""
    return analysis.entropy.mean


def _covered(analysis: Analysis) -> Floats:
    """Count source words that got half of an attention, and all source words: (sentences, 2)."""
    words = np.array(analysis.sentences.source_words, dtype=np.float64)
    return np.stack([np.array(analysis.sentences.covered) * words, words], axis=1)


class Measure(NamedTuple):
    """A quantity of a whole seed, so that its interval is over seeds alone."""

    of: Callable[[Analysis], float]
    lower_is_better: bool
    digits: int


MEASURES: Mapping[str, Measure] = {
    "entropy": Measure(_mean_entropy, lower_is_better=True, digits=2),
    "accuracy_at_high_entropy": Measure(
        _from_bins(HIGH_ENTROPY, np.inf), lower_is_better=False, digits=1
    ),
    "accuracy_at_low_entropy": Measure(
        _from_bins(0.0, HIGH_ENTROPY), lower_is_better=False, digits=1
    ),
}
COVERED = "covered"
TIMES = ("training_time", "decoding_time")


@dataclass(frozen=True)
class Stored:
    """The runs of a stored experiment, unpacked."""

    experiment: Experiment
    folder: Path
    claims: Sequence[Claim]  # the claims that these runs answer

    def runs(self, task: str, models: Sequence[str], name: str) -> list[Path]:
        """Return the models' files called `name`; a `UserError` names a model that has none."""
        paths: list[Path] = []
        for model in models:
            files = sorted(self.folder.glob(f"{task}/{model}/seed*/{name}"))
            if not files:
                raise UserError(f"no stored run has {name} of {task}, {model}", file=self.folder)
            paths += files
        return paths

    @cached_property
    def _measured(self) -> dict[tuple[str, str, str], Measured]:
        """Task, model and measure -> what was measured before."""
        return {}

    @cached_property
    def _draws(self) -> dict[tuple[str, str], Resampled]:
        """Task and name of file -> counts that were resampled before."""
        return {}

    @cached_property
    def _read_analyses(self) -> dict[tuple[str, str], list[Analysis]]:
        """Task and model -> analyses that were read before."""
        return {}

    def measured(self, task: str, model: str, measure: str) -> Measured:
        """Return a model's values by a metric, one a seed, and the draws of their mean."""
        key = (task, model, measure)
        if key in self._measured:
            return self._measured[key]

        if measure in MEASURES:
            values = [MEASURES[measure].of(analysis) for analysis in self._analyses(task, model)]
            self._measured[key] = over_seeds(values, model)
        elif measure in TIMES:
            # A ratio of times is a difference of their logarithms.
            log_seconds = np.log(self._seconds(task, model, measure))
            self._measured[key] = over_seeds(log_seconds.tolist(), model)
        else:
            self._measured[key] = self._over_units(task, model, measure)
        return self._measured[key]

    def difference(self, task: str, model: str, measure: str, other: str) -> Measured:
        """Return by how much a model's runs have more of one metric than of another.

        Units and seeds are paired.
        """
        first = metric_of(measure)
        second = metric_of(other)
        columns = [*first.columns, *second.columns]
        counts = np.stack([run.scores.counts().of(columns) for run in self._scored(task, model)])
        width = len(first.columns)

        def value(sums: Floats) -> Floats:
            return np.asarray(first.value(sums[..., :width]) - second.value(sums[..., width:]))

        return over_units(counts, value, model)

    def _over_units(self, task: str, model: str, measure: str) -> Measured:
        """Measure by counts of units; a `UserError` if no stored run has the metric."""
        if measure == COVERED:
            counts = np.stack([_covered(analysis) for analysis in self._analyses(task, model)])
            return over_units(counts, percentage, model)

        metric = metric_of(measure)
        for name in ("scores.json", "gold_scores.json"):
            resampled = self._resampled(task, name)
            if model in resampled.totals and set(metric.columns) <= set(resampled.columns):
                return resampled.measured(metric, model)
        raise UserError(f"no stored run has {measure} of {task}, {model}", file=self.folder)

    def _resampled(self, task: str, name: str) -> Resampled:
        """Return sums of the counts that the claims about a task need.

        All models of the task are seen under the same draws of units.
        """
        if (task, name) in self._draws:
            return self._draws[task, name]

        claims = [claim for claim in self.claims if claim.task == task]
        runs_of = {
            model: self._scored(task, model, name)
            for model in dict.fromkeys(model for claim in claims for model in claim.models)
            if list(self.folder.glob(f"{task}/{model}/seed*/{name}"))
        }

        columns: dict[str, None] = {}
        for claim in claims:
            runs = [run for model in claim.models for run in runs_of.get(model, [])]
            if runs and all(claim.measure in run.scores.metrics for run in runs):
                columns |= dict.fromkeys(metric_of(claim.measure).columns)

        # A run that lacks a count leaves its model out.
        complete = {
            model: runs
            for model, runs in runs_of.items()
            if columns and all(run.scores.counts().has(columns) for run in runs)
        }

        self._draws[task, name] = Resampled.of(complete, list(columns))
        return self._draws[task, name]

    def _scored(self, task: str, model: str, name: str = "scores.json") -> list[ScoredRun]:
        """Read the scores of a model's runs."""
        return load_runs(self.runs(task, [model], name), self.experiment)[0].models[model]

    def _analyses(self, task: str, model: str) -> list[Analysis]:
        """Return the analyses of a model's runs, which are read once."""
        if (task, model) not in self._read_analyses:
            paths = self.runs(task, [model], "analysis.json")
            self._read_analyses[task, model] = [load(Analysis, path) for path in paths]
        return self._read_analyses[task, model]

    def _seconds(self, task: str, model: str, measure: str) -> list[float]:
        """Return the seconds of each seed that ran on the first one's kind of processor."""
        spent = []
        for run in self._scored(task, model):
            work = run.scores.training if measure == "training_time" else run.main_decoding
            device_and_seconds = processor_seconds(work)
            if device_and_seconds is not None:
                spent.append(device_and_seconds)
        if not spent:
            raise UserError(f"no stored run has the {measure} of {task}, {model}", file=self.folder)

        # Seconds on different devices do not compare.
        first_device = spent[0][0]
        return [seconds for device, seconds in spent if device == first_device]


def over_seeds(values: Sequence[float], name: str) -> Measured:
    """Return values of seeds with draws of seeds alone."""
    of_seeds = np.array(values, dtype=np.float64)
    means = np.full(RESAMPLES, of_seeds.mean())
    return Measured(of_seeds, bootstrap.draws_over_seeds(of_seeds, means, name))


def over_units(counts: Floats, value: Callable[[Floats], Floats], name: str) -> Measured:
    """Return values of seeds, with draws of units and seeds.

    Args:
        counts: (seeds, units, columns).
        value: the metric of such counts summed over units.
    """
    values = value(counts.sum(axis=1))
    resampled = value(bootstrap.resampled_sums(counts)).mean(axis=0)
    return Measured(values, bootstrap.draws_over_seeds(values, resampled, name))


# Judging.


def outcome(claim: Claim, stored: Stored, papers: Mapping[str, PaperTable]) -> Outcome:
    """Judge a claim by the stored runs."""
    paper = papers[claim.table] if claim.table else None
    if claim.metric in TIMES:
        return _ratio(claim, stored, paper)
    if len(claim.models) == 1 and not claim.over:
        return _level(claim, stored, paper)

    # Where one metric is claimed to exceed another, both are of the same model.
    rivals = claim.models[1:] or [claim.models[0]]
    return _weakest([_gain(claim, stored, paper, rival) for rival in rivals])


def _weakest(gains: Sequence[Outcome]) -> Outcome:
    """Return the outcome that decides whether a model is better than each of several rivals.

    It is the worst verdict, and of equal verdicts the smallest gain.
    """
    order = ("contradicts", "not judged", "cannot tell", "agrees")
    return min(gains, key=lambda gain: (order.index(gain.verdict.direction), gain.ours))


def _sign_and_digits(claim: Claim) -> tuple[float, int]:
    """Return the sign that makes better values larger, and the digits after the point."""
    if claim.metric in MEASURES:
        measure = MEASURES[claim.metric]
        return (-1.0 if measure.lower_is_better else 1.0), measure.digits
    if claim.metric == COVERED:
        return 1.0, 1

    metric = metric_of(claim.measure)
    digits = 1
    if metric.decimals > 2:
        digits = metric.decimals
    elif metric.unit == "%" or claim.metric.startswith("ppl"):
        digits = 2
    return sign_of(metric), digits


def _figure(claim: Claim, stored: Stored, paper: PaperTable | None, model: str) -> float | None:
    """Return the source's figure for a model, if it has one."""
    if paper is None:
        return None
    task = stored.experiment.tasks[claim.task]
    return paper.value(claim.measure, task.paper or task.paper_reference, model)


def _level(claim: Claim, stored: Stored, paper: PaperTable | None) -> Outcome:
    """Judge a claim about the level of one model."""
    model = claim.models[0]
    measured = stored.measured(claim.task, model, claim.measure)
    seeds = len(measured.values)
    spread = bootstrap.interval(measured.draws.spread())

    figure = _figure(claim, stored, paper, model)
    margin = 0.0 if figure is None else margin_of(claim.measure, figure)
    same_data = stored.experiment.tasks[claim.task].paper is not None
    _, digits = _sign_and_digits(claim)
    return Outcome(
        verdict=judge_level(figure, spread, seeds, margin, same_data),
        paper=figure,
        ours=float(measured.values.mean()),
        interval=spread,
        p=None,
        p_holm=None,
        setting=setting_of(stored.experiment, claim.task, paper, seeds_text([seeds])),
        unit="level",
        digits=digits,
    )


def _gain(claim: Claim, stored: Stored, paper: PaperTable | None, rival: str) -> Outcome:
    """Judge the gain of a model over a rival, or of one metric over another of the same runs."""
    model = claim.models[0]
    sign, digits = _sign_and_digits(claim)
    figure = None
    margin = 0.0
    if claim.over:
        measured = stored.difference(claim.task, model, claim.measure, claim.other_measure)
        gain = sign * float(measured.values.mean())
        counts = [len(measured.values)]
        differences = measured.draws.times(sign)
    else:
        measured = stored.measured(claim.task, model, claim.measure)
        of_rival = stored.measured(claim.task, rival, claim.measure)
        gain = sign * float(measured.values.mean() - of_rival.values.mean())
        counts = [len(measured.values), len(of_rival.values)]
        differences = measured.draws.minus(of_rival.draws).times(sign)
        figures = [_figure(claim, stored, paper, name) for name in (model, rival)]
        if figures[0] is not None and figures[1] is not None:
            figure = sign * (figures[0] - figures[1])
        if claim.alike:
            margin = margin_of(claim.measure, float(of_rival.values.mean()))

    interval = p = None
    if min(counts) > 1:
        draws = differences.spread()
        interval = bootstrap.interval(draws)
        p = bootstrap.p_value(draws, gain)

    if claim.alike:
        verdict = _judge_alike(interval, min(counts), 0.0, margin)
        p = None
    else:
        # The claim is that the first is better, also where the source has no figure.
        verdict = judge_gain(figure, interval, min(counts), side=1.0)

    return Outcome(
        verdict=verdict,
        paper=figure,
        ours=gain,
        interval=interval,
        p=p,
        p_holm=None,
        setting=setting_of(stored.experiment, claim.task, paper, seeds_text(counts)),
        unit="gain",
        digits=digits,
    )


def _judge_alike(interval: Interval | None, seeds: int, center: float, margin: float) -> Verdict:
    """Judge a claim that two models do not differ, or differ by a stated ratio.

    It is judged as a level is: the interval has to lie within a margin.
    """
    if interval is None:
        return Verdict("not judged", "", f"fewer than {LEAST_SEEDS} seeds")

    verdict = judge_level(center, interval, seeds, margin)
    return verdict._replace(direction=LEVELS.get(verdict.direction, verdict.direction))


def _ratio(claim: Claim, stored: Stored, paper: PaperTable | None) -> Outcome:
    """Judge the time of the first model over the second one's.

    The ratio is of geometric means over seeds; what is drawn are logarithms of seconds.
    """
    model, base = (stored.measured(claim.task, name, claim.metric) for name in claim.models[:2])
    counts = [len(model.values), len(base.values)]
    ratio = float(np.exp(model.values.mean() - base.values.mean()))

    interval = log_interval = p = None
    if min(counts) > 1:
        draws = model.draws.minus(base.draws).spread()
        ends = bootstrap.interval(draws)
        interval = Interval(*np.exp([ends.low, ends.high]).tolist())
        log_interval = Interval(float(np.log(interval.low)), float(np.log(interval.high)))
        p = bootstrap.p_value(draws, float(np.log(ratio)))

    figure = paper.value("time_ratio", "any", claim.models[0]) if paper else None
    if claim.alike or figure is not None:
        figure = figure or 1.0
        verdict = _judge_alike(interval, min(counts), figure, RATIO_MARGIN)
        p = None
    else:
        # The claim is that the first model takes longer.
        verdict = judge_gain(None, log_interval, min(counts), side=1.0)

    return Outcome(
        verdict=verdict,
        paper=figure,
        ours=ratio,
        interval=interval,
        p=p,
        p_holm=None,
        setting=setting_of(stored.experiment, claim.task, paper, seeds_text(counts)),
        unit="ratio",
        digits=2,
    )


def corrected(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Add p by Holm's correction for all judged claims of one source that have one."""
    tested = [
        index
        for index, judged in enumerate(outcomes)
        if judged.p is not None and judged.word != "not judged"
    ]
    p_values = [outcomes[index].p or 0.0 for index in tested]

    # Holm's correction is over the tested claims alone, in their order.
    with_holm = list(outcomes)
    for index, p in zip(tested, bootstrap.holm(p_values), strict=True):
        with_holm[index] = with_holm[index]._replace(p_holm=p)
    return with_holm


def counted(outcomes: Sequence[Outcome], open_claims: int) -> str:
    """Count in one line the claims that our runs agree with, contradict and leave open."""
    words = [judged.word for judged in outcomes]
    # verdicts that stay significant when all claims of their source are tested together
    lasting = [judged.word for judged in outcomes if (judged.p_holm or 0.0) < 0.05]

    return (
        f"Of {len(words) + open_claims} claims we judge {len(words) - words.count('not judged')}:"
        f" our runs agree with {words.count('agrees')}, contradict {words.count('contradicts')},"
        f" and leave {words.count('cannot tell')} open (cannot tell)."
        f" After Holm's correction they agree with {lasting.count('agrees')} and contradict"
        f" {lasting.count('contradicts')}."
        f" We do not judge {words.count('not judged')} claims with fewer than {LEAST_SEEDS} seeds"
        f" or on other data, and {open_claims} claims without a run."
    )
