"""What the stored runs say of the papers' claims: every figure and every verdict is computed, none
is written by hand.

`docs/claims.yaml` names for each claim experiment, task, models, metric and beam, with the source's
words; `outcome` computes the rest by the rule of `pam.reporting.comparison`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator

from pam.config import Experiment
from pam.evaluation import bootstrap
from pam.evaluation.attention import Analysis
from pam.evaluation.bootstrap import RESAMPLES, Interval
from pam.evaluation.inputs import load
from pam.evaluation.metrics import Floats, Metric, metric_of, percentage
from pam.io import Strict, UserError, parse, read_yaml
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
)
from pam.reporting.runs import ScoredRun, load_runs, processor_seconds

RATIO_MARGIN = 0.1
"""By how much a ratio of times may differ from the source's and still count as the same."""
HIGH_ENTROPY = 1.0  # nats from which attention counts as uncertain


LEVELS: Mapping[Direction, Direction] = {
    "equivalent": "agrees",
    "differs": "contradicts",
    "agrees with": "cannot tell",
}
"""The words for a level in those for a gain. A wide interval that has the paper's figure in it
tells nothing.
"""


class Claim(Strict):
    """One claim of a source: what it says, and the stored runs that answer it."""

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
        return self.metric if self.beam is None else f"{self.metric}_b{self.beam}"

    @property
    def other_measure(self) -> str:
        """The name of `over` with the beam."""
        return self.over if self.beam is None else f"{self.over}_b{self.beam}"


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
    """Read the file of claims; a `UserError` names file and line of what it cannot be."""
    return [
        parse(Source, content, path, [str(number)])
        for number, content in enumerate(read_yaml(path))
    ]


class Outcome(NamedTuple):
    """What our runs say of a claim."""

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
        """`agrees`, `contradicts`, `cannot tell` or `not judged`, a level counted as a gain is."""
        return LEVELS.get(self.verdict.direction, self.verdict.direction)


# What is measured of a run besides its scores, by seed.


def _from_bins(low: float, high: float) -> Callable[[Analysis], float]:
    """Accuracy in per cent over target symbols at which attention has an entropy between `low` and
    `high` nats.
    """

    def accuracy(analysis: Analysis) -> float:
        own = analysis.entropy
        inside = [place for place, edge in enumerate(own.edges[:-1]) if low <= edge < high]
        correct = sum(own.correct[place] for place in inside)
        return 100 * correct / sum(own.count[place] for place in inside)

    return accuracy


def _mean_entropy(analysis: Analysis) -> float:
    return analysis.entropy.mean


def _covered(analysis: Analysis) -> Floats:
    """Counts (sentences, 2): source words that got half of an attention, and all of them."""
    words = np.array(analysis.sentences.source_words, dtype=np.float64)
    return np.stack([np.array(analysis.sentences.covered) * words, words], axis=1)


class Measure(NamedTuple):
    """A quantity of each seed as a whole, so that its interval is over seeds alone."""

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
    claims: Sequence[Claim]  # those that these runs answer

    def runs(self, task: str, models: Sequence[str], name: str) -> list[Path]:
        """Return the models' files called `name`; a `UserError` names a model that has none."""
        found: list[Path] = []
        for model in models:
            files = sorted(self.folder.glob(f"{task}/{model}/seed*/{name}"))
            if not files:
                raise UserError(f"no stored run has {name} of {task}, {model}", file=self.folder)
            found += files
        return found

    @cached_property
    def _measured(self) -> dict[tuple[str, str, str], Measured]:
        return {}

    @cached_property
    def _draws(self) -> dict[tuple[str, str], Resampled]:
        return {}

    def measured(self, task: str, model: str, measure: str) -> Measured:
        """Return a model's values by a metric, one a seed, and the draws of their mean."""
        key = (task, model, measure)
        if key not in self._measured:
            if measure in MEASURES:
                analyses = [
                    load(Analysis, path) for path in self.runs(task, [model], "analysis.json")
                ]
                self._measured[key] = over_seeds(
                    [MEASURES[measure].of(one) for one in analyses], model
                )
            elif measure in TIMES:
                self._measured[key] = over_seeds(
                    np.log(self._seconds(task, model, measure)).tolist(), model
                )
            else:
                self._measured[key] = self._over_units(task, model, measure)
        return self._measured[key]

    def difference(self, task: str, model: str, measure: str, other: str) -> Measured:
        """Return by how much a model's runs have more of one metric than of another; units and
        seeds are paired.
        """
        first, second = metric_of(measure), metric_of(other)
        columns = [*first.columns, *second.columns]
        counts = np.stack([run.scores.counts().of(columns) for run in self._scored(task, model)])
        width = len(first.columns)

        def value(sums: Floats) -> Floats:
            return np.asarray(first.value(sums[..., :width]) - second.value(sums[..., width:]))

        return over_units(counts, value, model)

    def _over_units(self, task: str, model: str, measure: str) -> Measured:
        """Measure by counts of units; a `UserError` if no stored run has the metric."""
        if measure == COVERED:
            analyses = [load(Analysis, path) for path in self.runs(task, [model], "analysis.json")]
            return over_units(np.stack([_covered(one) for one in analyses]), percentage, model)
        metric = metric_of(measure)
        for name in ("scores.json", "gold_scores.json"):
            resampled = self._resampled(task, name)
            if model in resampled.totals and set(metric.columns) <= set(resampled.columns):
                return resampled.measured(metric, model)
        raise UserError(f"no stored run has {measure} of {task}, {model}", file=self.folder)

    def _resampled(self, task: str, name: str) -> Resampled:
        """Return sums of the counts that the claims about a task need, its models under the same
        draws of units.
        """
        if (task, name) not in self._draws:
            about = [claim for claim in self.claims if claim.task == task]
            models = dict.fromkeys(model for claim in about for model in claim.models)
            scored = [
                model for model in models if list(self.folder.glob(f"{task}/{model}/seed*/{name}"))
            ]
            known = {model: self._scored(task, model, name) for model in scored}
            columns: dict[str, None] = {}
            for claim in about:
                runs = [run for model in claim.models for run in known.get(model, [])]
                if runs and all(claim.measure in run.scores.metrics for run in runs):
                    columns |= dict.fromkeys(metric_of(claim.measure).columns)
            # A run that lacks a count leaves its model out.
            whole = {
                model: runs
                for model, runs in known.items()
                if all(run.scores.counts().has(columns) for run in runs)
            }
            self._draws[task, name] = Resampled.of(whole if columns else {}, list(columns))
        return self._draws[task, name]

    def _scored(self, task: str, model: str, name: str = "scores.json") -> list[ScoredRun]:
        return load_runs(self.runs(task, [model], name), self.experiment)[0].models[model]

    def _seconds(self, task: str, model: str, measure: str) -> list[float]:
        """Processor seconds of each seed that ran on the first one's kind of processor."""
        spent = []
        for run in self._scored(task, model):
            work = run.scores.training if measure == "training_time" else run.main_decoding
            spent.append(processor_seconds(work))
        known = [one for one in spent if one is not None]
        if not known:
            raise UserError(f"no stored run has the {measure} of {task}, {model}", file=self.folder)
        return [seconds for processor, seconds in known if processor == known[0][0]]


def over_seeds(values: Sequence[float], name: str) -> Measured:
    """Return values of seeds with draws of seeds alone."""
    known = np.array(values, dtype=np.float64)
    return Measured(
        known, bootstrap.draws_over_seeds(known, np.full(RESAMPLES, known.mean()), name)
    )


def over_units(counts: Floats, value: Callable[[Floats], Floats], name: str) -> Measured:
    """Return values of seeds by counts (seeds, units, columns), with draws of units and seeds."""
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
    gains = [_gain(claim, stored, paper, rival) for rival in claim.models[1:] or [claim.models[0]]]
    return _weakest(gains)


def _weakest(gains: Sequence[Outcome]) -> Outcome:
    """The outcome that decides whether a model is better than each of several: the one against it,
    or the smallest.
    """
    order = ("contradicts", "not judged", "cannot tell", "agrees")
    return min(gains, key=lambda one: (order.index(one.verdict.direction), one.ours))


def _sign_and_digits(claim: Claim) -> tuple[float, int]:
    if claim.metric in MEASURES:
        measure = MEASURES[claim.metric]
        return (-1.0 if measure.lower_is_better else 1.0), measure.digits
    if claim.metric == COVERED:
        return 1.0, 1
    metric: Metric = metric_of(claim.measure)
    digits = 2 if metric.unit == "%" or claim.metric.startswith("ppl") else 1
    return (-1.0 if metric.lower_is_better else 1.0), (
        metric.decimals if metric.decimals > 2 else digits
    )


def _figure(claim: Claim, stored: Stored, paper: PaperTable | None, model: str) -> float | None:
    task = stored.experiment.tasks[claim.task]
    return paper.value(claim.measure, task.paper or task.paper_reference, model) if paper else None


def _level(claim: Claim, stored: Stored, paper: PaperTable | None) -> Outcome:
    model = claim.models[0]
    own = stored.measured(claim.task, model, claim.measure)
    spread = bootstrap.interval(own.draws.spread())
    figure = _figure(claim, stored, paper, model)
    margin = 0.0 if figure is None else margin_of(claim.measure, figure)
    same_data = stored.experiment.tasks[claim.task].paper is not None
    verdict = judge_level(figure, spread, len(own.values), margin, same_data)
    setting = setting_of(stored.experiment, claim.task, paper, seeds_text([len(own.values)]))
    _, digits = _sign_and_digits(claim)
    return Outcome(
        verdict, figure, float(own.values.mean()), spread, None, None, setting, "level", digits
    )


def _gain(claim: Claim, stored: Stored, paper: PaperTable | None, rival: str) -> Outcome:
    """The gain of the first model over another, or of one metric over another of the same runs."""
    model = claim.models[0]
    sign, digits = _sign_and_digits(claim)
    figure = None
    margin = 0.0
    if claim.over:
        own = stored.difference(claim.task, model, claim.measure, claim.other_measure)
        gain = sign * float(own.values.mean())
        counts = [len(own.values)]
        differences = own.draws.times(sign)
    else:
        own = stored.measured(claim.task, model, claim.measure)
        other = stored.measured(claim.task, rival, claim.measure)
        gain = sign * float(own.values.mean() - other.values.mean())
        counts = [len(own.values), len(other.values)]
        differences = own.draws.minus(other.draws).times(sign)
        figures = [_figure(claim, stored, paper, name) for name in (model, rival)]
        if figures[0] is not None and figures[1] is not None:
            figure = sign * (figures[0] - figures[1])
        if claim.alike:
            margin = margin_of(claim.measure, float(other.values.mean()))

    interval = p = None
    if min(counts) > 1:
        draws = differences.spread()
        interval = bootstrap.interval(draws)
        p = bootstrap.p_value(draws, gain)
    if claim.alike:
        verdict = _judge_alike(interval, min(counts), 0.0, margin)
        p = None
    else:
        verdict = judge_gain(figure, interval, min(counts), side=1.0)
    setting = setting_of(stored.experiment, claim.task, paper, seeds_text(counts))
    return Outcome(verdict, figure, gain, interval, p, None, setting, "gain", digits)


def _judge_alike(interval: Interval | None, seeds: int, center: float, margin: float) -> Verdict:
    """Judge a claim that two models do not differ, or by a stated ratio, as a level: the interval
    within a margin.
    """
    if interval is None:
        return Verdict("not judged", "", f"fewer than {LEAST_SEEDS} seeds")
    verdict = judge_level(center, interval, seeds, margin)
    return verdict._replace(direction=LEVELS.get(verdict.direction, verdict.direction))


def _ratio(claim: Claim, stored: Stored, paper: PaperTable | None) -> Outcome:
    """The time of the first model over the second one's: a ratio of geometric means over seeds."""
    model, base = (stored.measured(claim.task, name, claim.metric) for name in claim.models[:2])
    counts = [len(model.values), len(base.values)]
    ratio = float(np.exp(model.values.mean() - base.values.mean()))
    interval = p = None
    if min(counts) > 1:
        draws = model.draws.minus(base.draws).spread()
        interval = Interval(
            *np.exp([bootstrap.interval(draws).low, bootstrap.interval(draws).high]).tolist()
        )
        p = bootstrap.p_value(draws, float(np.log(ratio)))
    figure = paper.value("time_ratio", "any", claim.models[0]) if paper else None
    if claim.alike or figure is not None:
        verdict = _judge_alike(interval, min(counts), figure or 1.0, RATIO_MARGIN)
        p = None
        figure = figure or 1.0
    else:  # the first one takes longer
        logs = (
            Interval(float(np.log(interval.low)), float(np.log(interval.high)))
            if interval
            else None
        )
        verdict = judge_gain(None, logs, min(counts), side=1.0)
    setting = setting_of(stored.experiment, claim.task, paper, seeds_text(counts))
    return Outcome(verdict, figure, ratio, interval, p, None, setting, "ratio", 2)


def corrected(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Add p by Holm's correction for all judged claims of one source that have one."""
    tested = [
        place
        for place, one in enumerate(outcomes)
        if one.p is not None and one.word != "not judged"
    ]
    p_values = [outcomes[place].p or 0.0 for place in tested]
    found = list(outcomes)
    for place, p in zip(tested, bootstrap.holm(p_values), strict=True):
        found[place] = found[place]._replace(p_holm=p)
    return found


def counted(outcomes: Sequence[Outcome], open_claims: int) -> str:
    """Say in one line how many claims are judged, agree, contradict and cannot be told."""
    words = [one.word for one in outcomes]
    judged = len(words) - words.count("not judged")
    lasting = {
        word: sum(one.word == word and (one.p_holm or 0.0) < 0.05 for one in outcomes)
        for word in ("agrees", "contradicts")
    }
    return (
        f"Of {len(words) + open_claims} claims {judged} are judged: {words.count('agrees')} agree,"
        f" {words.count('contradicts')} contradict, of {words.count('cannot tell')} we cannot tell."
        f" After Holm's correction {lasting['agrees']} agree and {lasting['contradicts']}"
        f" contradict. {words.count('not judged')} have fewer than {LEAST_SEEDS} seeds or other"
        f" data, {open_claims} no run."
    )
