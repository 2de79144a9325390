"""Judge the papers' claims by the stored runs.

Every figure and every verdict is computed, none is written by hand. `docs/claims.yaml` names for
each claim its experiment, task, models, metric and beam, with the source's words. `outcome`
computes the rest by the rule of `pam.reporting.comparison`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator

from pam.evaluation import two_levels
from pam.evaluation.attention import Analysis, Entropy
from pam.evaluation.bootstrap import LEVEL, Interval
from pam.evaluation.metrics import Floats, metric_of, percentage
from pam.evaluation.records import load
from pam.evaluation.two_levels import Estimate, Measured, Scatter
from pam.experiments.experiment import Experiment
from pam.experiments.parsing import Strict, parse
from pam.experiments.yaml import read_yaml
from pam.reporting.catalogue import PaperTable
from pam.reporting.comparison import (
    LEAST_SEEDS,
    MARGIN_OF_PERCENTAGES,
    Direction,
    Verdict,
    gain_of,
    judge_gain,
    judge_level,
    margin_of,
    measure,
    seeds_text,
    setting_of,
    sign_of,
)
from pam.reporting.runs import TaskRuns, load_runs, processor_of
from pam.runtime.errors import UserError

# how much a ratio may differ from the source's and still count as the same
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
    times: float | None = Field(
        None, description="the source's ratio of the first model to the second, which is judged"
    )
    why: str = Field(description="what a reader has to know, in one line, without figures of ours")
    unjudged: str = Field("", description="why stored runs do not answer the claim; empty: they do")
    main: bool = Field(False, description="whether it stands in README too")

    @property
    def measure(self) -> str:
        """The metric's name with the beam."""
        return self._of_beam(self.metric)

    @property
    def other_measure(self) -> str:
        """The name of `over` with the beam."""
        return self._of_beam(self.over)

    @property
    def compared(self) -> tuple[object, ...]:
        """What is compared, which is the same for the same question of several sources."""
        return (
            self.experiment,
            self.task,
            tuple(self.models),
            self.measure,
            self.other_measure,
            self.alike,
            self.times,
        )

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
    ours: float | None  # None where the stored runs do not have it
    interval: Interval | None
    p: float | None
    setting: str
    unit: str  # `ratio`, `gain` or `level`
    digits: int
    p_holm: float | None = None

    @property
    def word(self) -> str:
        """`agrees`, `contradicts`, `cannot tell` or `not judged`, for levels as for gains."""
        return LEVELS.get(self.verdict.direction, self.verdict.direction)


# Quantities of a run besides its scores, by seed.


OfAnalysis = Callable[[Analysis], float | None]


def _of_posterior(measure: Callable[[Entropy], float | None]) -> OfAnalysis:
    """Apply a measure to the entropy of the posterior, where an analysis has it."""

    def of_analysis(analysis: Analysis) -> float | None:
        if analysis.posterior_entropy is None:
            return None
        return measure(analysis.posterior_entropy)

    return of_analysis


def _accuracy(low: float, high: float) -> Callable[[Entropy], float | None]:
    """Return the function that measures accuracy at some entropies of attention.

    It counts in per cent over target symbols with an entropy of `low` up to `high` nats; None if
    there are none.
    """

    def accuracy(bins: Entropy) -> float | None:
        inside = [index for index, edge in enumerate(bins.edges[:-1]) if low <= edge < high]
        symbols = sum(bins.count[index] for index in inside)
        if not symbols:
            return None
        return 100 * sum(bins.correct[index] for index in inside) / symbols

    return accuracy


def _covered(analysis: Analysis) -> Floats:
    """Count source words that got half of an attention, and all source words: (sentences, 2)."""
    words = np.array(analysis.sentences.source_words, dtype=np.float64)
    return np.stack([np.array(analysis.sentences.covered) * words, words], axis=1)


class Measure(NamedTuple):
    """A quantity of a whole seed, so that its interval is over seeds alone."""

    of: OfAnalysis  # None where an analysis lacks it
    lower_is_better: bool
    digits: int
    lacking: str = ""  # why a stored analysis may lack it


_NO_POSTERIOR = "the stored analyses have the entropy of the prior, not of the posterior"
_AT_HIGH = _accuracy(HIGH_ENTROPY, np.inf)
_AT_LOW = _accuracy(0.0, HIGH_ENTROPY)
MEASURES: Mapping[str, Measure] = {
    "entropy": Measure(lambda analysis: analysis.entropy.mean, lower_is_better=True, digits=2),
    "entropy_posterior": Measure(
        _of_posterior(lambda entropy: entropy.mean),
        lower_is_better=True,
        digits=2,
        lacking=_NO_POSTERIOR,
    ),
    "accuracy_at_high_entropy": Measure(
        lambda analysis: _AT_HIGH(analysis.entropy), lower_is_better=False, digits=1
    ),
    "accuracy_at_high_entropy_posterior": Measure(
        _of_posterior(_AT_HIGH), lower_is_better=False, digits=1, lacking=_NO_POSTERIOR
    ),
    "accuracy_at_low_entropy": Measure(
        lambda analysis: _AT_LOW(analysis.entropy), lower_is_better=False, digits=1
    ),
}
COVERED = "covered"
TIMES = ("training_time", "decoding_time")
ByModel = Mapping[str, Measured]  # all models of a task that have a quantity


@dataclass(frozen=True)
class Stored:
    """The runs of a stored experiment, unpacked."""

    experiment: Experiment
    folder: Path
    _by_measure: dict[tuple[str, ...], ByModel] = field(default_factory=dict)
    _scored: dict[tuple[str, str], TaskRuns | None] = field(default_factory=dict)
    _analyses: dict[str, dict[str, list[Analysis]]] = field(default_factory=dict)

    def measured(self, task: str, name: str) -> ByModel:
        """Measure all models of a task by a metric, or by a key of `MEASURES`.

        Seeds of all of them tell how much seeds scatter.
        """
        if (task, name) not in self._by_measure:
            self._by_measure[task, name] = self._measure(task, name)
        return self._by_measure[task, name]

    def difference(self, task: str, name: str, other: str) -> ByModel:
        """Measure by how much the runs of each model have more of one metric than of another."""
        first = self.measured(task, name)
        second = self.measured(task, other)
        return {model: first[model].minus(second[model]) for model in first if model in second}

    def pair(self, by_model: ByModel, claim: Claim, models: Sequence[str]) -> list[Measured]:
        """Return what was measured of some models; a `UserError` names one that was not."""
        for model in models:
            if model not in by_model:
                words = f"no stored run has {claim.measure} of {claim.task}, {model}"
                raise UserError(words, file=self.folder)
        return [by_model[model] for model in models]

    def seconds(self, task: str, name: str) -> dict[str, ByModel]:
        """Return log seconds of training or decoding by processor and model.

        Seconds on different processors do not compare. A ratio of times is a difference of their
        logarithms.
        """
        task_runs = self._runs(task, "scores.json")
        seconds: dict[str, dict[str, list[float]]] = {}
        for run in task_runs.runs if task_runs else []:
            work = run.scores.training if name == "training_time" else run.main_decoding
            spent = processor_of(work, run.scores.training)
            if spent is not None:
                processor, of_run = spent
                seconds.setdefault(processor, {}).setdefault(run.model, []).append(of_run)

        return {
            processor: {
                model: Measured.of_seeds(np.log(of_seeds).tolist())
                for model, of_seeds in by_model.items()
            }
            for processor, by_model in seconds.items()
        }

    def _measure(self, task: str, name: str) -> ByModel:
        """Measure all models of a task that have a quantity in all of their runs."""
        if name in MEASURES:
            by_seed = {
                model: [MEASURES[name].of(analysis) for analysis in analyses]
                for model, analyses in self._analyses_of(task).items()
            }
            # A model is left out if one of its analyses lacks the quantity.
            measured_by_model = {}
            for model, values in by_seed.items():
                known = [value for value in values if value is not None]
                if len(known) == len(values):
                    measured_by_model[model] = Measured.of_seeds(known)
            return measured_by_model

        if name == COVERED:
            return {
                model: Measured.of(np.stack([_covered(of_seed) for of_seed in seeds]), percentage)
                for model, seeds in self._analyses_of(task).items()
            }

        metric = metric_of(name)
        for file in ("scores.json", "gold_scores.json"):
            task_runs = self._runs(task, file)
            by_model = {
                model: measure(metric, runs)
                for model, runs in (task_runs.models.items() if task_runs else ())
                if all(metric.name in run.scores.metrics for run in runs)
            }
            if by_model:
                return by_model
        return {}

    def _runs(self, task: str, file: str) -> TaskRuns | None:
        """Read the scores of all runs of a task, once."""
        if (task, file) not in self._scored:
            paths = sorted(self.folder.glob(f"{task}/*/seed*/{file}"))
            runs = load_runs(paths, self.experiment)[0] if paths else None
            self._scored[task, file] = runs
        return self._scored[task, file]

    def _analyses_of(self, task: str) -> dict[str, list[Analysis]]:
        """Read the analyses of all runs of a task by model, once."""
        if task not in self._analyses:
            by_model: dict[str, list[Analysis]] = {}
            for path in sorted(self.folder.glob(f"{task}/*/seed*/analysis.json")):
                analysis = load(Analysis, path)
                by_model.setdefault(analysis.model, []).append(analysis)
            self._analyses[task] = by_model
        return self._analyses[task]


# Judging.


def outcome(claim: Claim, stored: Stored, papers: Mapping[str, PaperTable]) -> Outcome:
    """Judge a claim by the stored runs, unless they do not answer it."""
    judged = _judged(claim, stored, papers)
    if not claim.unjudged:
        return judged
    return judged._replace(verdict=Verdict("not judged", claim.unjudged))


def _judged(claim: Claim, stored: Stored, papers: Mapping[str, PaperTable]) -> Outcome:
    """Judge a claim by the stored runs."""
    paper = papers[claim.table] if claim.table else None
    if claim.metric in MEASURES and MEASURES[claim.metric].lacking:
        measured = stored.measured(claim.task, claim.metric)
        if not set(claim.models) <= set(measured):
            return _not_stored(claim, stored, paper)
    if claim.metric in TIMES:
        return _ratio_of_times(claim, stored, paper)
    if claim.times is not None:
        return _ratio_of_means(claim, stored, paper)
    if len(claim.models) == 1 and not claim.over:
        return _level(claim, stored, paper)
    return _weakest(claim, stored, paper)


def _not_stored(claim: Claim, stored: Stored, paper: PaperTable | None) -> Outcome:
    """Leave a claim unjudged whose quantity no stored run has, with the reason."""
    lacking = MEASURES[claim.metric].lacking
    return Outcome(
        verdict=Verdict("not judged", lacking),
        paper=None,
        ours=None,
        interval=None,
        p=None,
        setting=setting_of(stored.experiment, claim.task, paper, "no seeds"),
        unit="gain",
        digits=1,
    )


def _weakest(claim: Claim, stored: Stored, paper: PaperTable | None) -> Outcome:
    """Judge whether a model is better than each of its rivals, by the weakest gain.

    That it is better than each needs no correction, as every single gain must show it. That it is
    behind one of them is the best of several tests, so that intervals and p are corrected for their
    number, by Bonferroni.
    """
    # Where one metric is claimed to exceed another, both are of the same model.
    rivals = claim.models[1:] or [claim.models[0]]
    gains = [_gain(claim, stored, paper, rival) for rival in rivals]
    if len(rivals) > 1 and any(gain.word != "agrees" for gain in gains):
        gains = [_gain(claim, stored, paper, rival, tests=len(rivals)) for rival in rivals]

    order = ("contradicts", "not judged", "cannot tell", "agrees")
    weakest = min(gains, key=lambda gain: (order.index(gain.word), gain.ours or 0.0))
    if weakest.word == "agrees" and len(gains) > 1:
        # All of the gains have to be ones.
        weakest = weakest._replace(p=max(gain.p or 0.0 for gain in gains))
    return weakest


def _sign_and_digits(claim: Claim) -> tuple[float, int]:
    """Return the sign that makes better values larger, and the digits after the point."""
    if claim.metric in MEASURES:
        quantity = MEASURES[claim.metric]
        return (-1.0 if quantity.lower_is_better else 1.0), quantity.digits
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
    """Judge a claim about the level of one model.

    On the source's own test set the interval is over seeds alone, as the units are the same.
    """
    model = claim.models[0]
    by_model = stored.measured(claim.task, claim.measure)
    (measured,) = stored.pair(by_model, claim, [model])
    same_data = stored.experiment.tasks[claim.task].paper is not None
    estimate = two_levels.level(measured, Scatter.of(by_model.values()))
    if same_data and measured.seeds > 1:
        estimate = two_levels.level_on_these_units(measured)
    interval = estimate.interval()

    figure = _figure(claim, stored, paper, model)
    margin = 0.0 if figure is None else margin_of(claim.measure, figure)
    _, digits = _sign_and_digits(claim)
    return Outcome(
        verdict=judge_level(figure, interval, measured.seeds, margin, same_data),
        paper=figure,
        ours=measured.mean,
        interval=interval,
        p=None,
        setting=setting_of(stored.experiment, claim.task, paper, seeds_text([measured.seeds])),
        unit="level",
        digits=digits,
    )


def _gain(
    claim: Claim, stored: Stored, paper: PaperTable | None, rival: str, tests: int = 1
) -> Outcome:
    """Judge the gain of a model over a rival, or of one metric over another of the same runs.

    Args:
        tests: the number of rivals of which the worst gain decides.
    """
    model = claim.models[0]
    sign, digits = _sign_and_digits(claim)
    figure = None
    margin = 0.0
    estimate: Estimate | None
    if claim.over:
        by_model = stored.difference(claim.task, claim.measure, claim.other_measure)
        (measured,) = stored.pair(by_model, claim, [model])
        scatter = Scatter.of(by_model.values())
        value = sign * measured.mean
        counts = [measured.seeds]
        estimate = two_levels.level(measured, scatter).times(sign)
    else:
        by_model = stored.measured(claim.task, claim.measure)
        measured, of_rival = stored.pair(by_model, claim, [model, rival])
        scatter = Scatter.of(by_model.values())
        value = sign * (measured.mean - of_rival.mean)
        counts = [measured.seeds, of_rival.seeds]
        estimate = gain_of(measured, of_rival, scatter, sign)
        figures = [_figure(claim, stored, paper, name) for name in (model, rival)]
        if figures[0] is not None and figures[1] is not None:
            figure = sign * (figures[0] - figures[1])
        if claim.alike:
            margin = _margin(claim, of_rival.mean)

    interval = p = None
    if estimate is not None and min(counts) > 1:
        interval = estimate.interval(1 - (1 - LEVEL) / tests)
        p = min(1.0, tests * estimate.p)

    if claim.alike:
        verdict = _judge_alike(interval, min(counts), 0.0, margin)
        p = None
    else:
        # The claim is that the first is better, also where the source has no figure.
        verdict = judge_gain(figure, interval, min(counts), side=1.0)
    if tests > 1:
        reason = f"{verdict.reason}, corrected for {tests} rivals"
        verdict = verdict._replace(reason=reason)

    return Outcome(
        verdict=verdict,
        paper=figure,
        ours=value,
        interval=interval,
        p=p,
        setting=setting_of(stored.experiment, claim.task, paper, seeds_text(counts)),
        unit="gain",
        digits=digits,
    )


def _margin(claim: Claim, level: float) -> float:
    """Return by how much two models may differ and still count as alike."""
    if claim.metric == COVERED:
        return MARGIN_OF_PERCENTAGES
    return margin_of(claim.measure, level)


def _judge_alike(interval: Interval | None, seeds: int, center: float, margin: float) -> Verdict:
    """Judge a claim that two models do not differ, or differ by a stated ratio.

    It is judged as a level is: the interval has to lie within a margin.
    """
    if interval is None:
        return Verdict("not judged", f"fewer than {LEAST_SEEDS} seeds")

    verdict = judge_level(center, interval, seeds, margin)
    return verdict._replace(direction=LEVELS.get(verdict.direction, verdict.direction))


def _ratio_of_times(claim: Claim, stored: Stored, paper: PaperTable | None) -> Outcome:
    """Judge the time of the first model over the second one's, on one processor.

    Where seeds ran on several processors, the one counts on which both have the most seeds.
    """
    models = claim.models[:2]
    of_both = {
        processor: by_model
        for processor, by_model in stored.seconds(claim.task, claim.metric).items()
        if all(model in by_model for model in models)
    }
    if not of_both:
        raise UserError(
            f"no processor has measured the {claim.metric} of {', '.join(models)}",
            file=stored.folder,
        )
    by_model = max(
        of_both.values(), key=lambda seconds: min(seconds[model].seeds for model in models)
    )

    figure = paper.value("time_ratio", "any", claim.models[0]) if paper else None
    return _ratio(claim, stored, paper, by_model, figure)


def _ratio_of_means(claim: Claim, stored: Stored, paper: PaperTable | None) -> Outcome:
    """Judge how many times as much of a metric the first model has as the second."""
    by_model = {
        model: measured.log()
        for model, measured in stored.measured(claim.task, claim.measure).items()
        if (measured.values > 0).all()
    }
    return _ratio(claim, stored, paper, by_model, claim.times)


def _ratio(
    claim: Claim,
    stored: Stored,
    paper: PaperTable | None,
    by_model: ByModel,
    figure: float | None,
) -> Outcome:
    """Judge the ratio of two models; it is of geometric means over seeds.

    Args:
        by_model: logarithms.
        figure: the source's ratio, if it states one.
    """
    model, base = stored.pair(by_model, claim, claim.models[:2])
    counts = [model.seeds, base.seeds]
    estimate = gain_of(model, base, Scatter.of(by_model.values()))

    interval = log_interval = p = None
    if estimate is not None:
        log_interval = estimate.interval()
        interval = Interval(float(np.exp(log_interval.low)), float(np.exp(log_interval.high)))
        p = estimate.p

    if claim.alike or figure is not None:
        figure = figure or 1.0
        verdict = _judge_alike(interval, min(counts), figure, RATIO_MARGIN)
        p = None
    else:
        # The claim is that the first model has more.
        verdict = judge_gain(None, log_interval, min(counts), side=1.0)

    return Outcome(
        verdict=verdict,
        paper=figure,
        ours=float(np.exp(model.mean - base.mean)),
        interval=interval,
        p=p,
        setting=setting_of(stored.experiment, claim.task, paper, seeds_text(counts)),
        unit="ratio",
        digits=2,
    )


def corrected(claims: Sequence[Claim], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Add p by Holm's correction for all judged comparisons of one source that have one."""
    p_values = {
        claim.compared: judged.p
        for claim, judged in zip(claims, outcomes, strict=True)
        if judged.p is not None and judged.word != "not judged"
    }
    with_holm = dict(zip(p_values, two_levels.holm(list(p_values.values())), strict=True))

    return [
        judged._replace(p_holm=with_holm.get(claim.compared))
        for claim, judged in zip(claims, outcomes, strict=True)
    ]


def counted(judged: Iterable[tuple[Claim, Outcome]], open_claims: int) -> str:
    """Count the comparisons that our runs agree with, contradict and leave open.

    Two claims about the same comparison count as one.
    """
    pairs = list(judged)
    distinct: dict[tuple[object, ...], list[Outcome]] = {}
    for claim, result in pairs:
        distinct.setdefault(claim.compared, []).append(result)

    words = Counter(results[0].word for results in distinct.values())
    # Without p a verdict is not tested, and cannot last through a correction.
    lasting = Counter(
        results[0].word
        for results in distinct.values()
        if all(result.p_holm is not None and result.p_holm < 1 - LEVEL for result in results)
    )
    tested = sum(results[0].p_holm is not None for results in distinct.values())
    judged_count = len(distinct) - words["not judged"]

    return (
        f"We list {len(pairs) + open_claims} claims, of which {open_claims} have no run; the other"
        f" {len(pairs)} make {len(distinct)} distinct comparisons. We judge {judged_count} of"
        f" these: our runs agree with {words['agrees']}, contradict {words['contradicts']}, and"
        f" leave {words['cannot tell']} open (cannot tell). {tested} have a p; after Holm's"
        f" correction they agree with {lasting['agrees']} and contradict {lasting['contradicts']}."
        f" We do not judge {words['not judged']}, which have fewer than {LEAST_SEEDS} seeds, a"
        " level on other data than the paper's, models that have not learned the task, or no stored"
        " record of what is claimed."
    )
