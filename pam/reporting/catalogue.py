"""What a report can show: tables and figures, of which kind of task, made of which files.

The workflow and the verbs read nothing else to know them. An experiment's report has those that
one of its tasks, by its kind, has something to say in.

To add a table that compares models: an entry here and one in `pam.reporting.tables.COMPARISONS`. To
add a figure: an entry here and, for a new kind, a module in `pam.reporting.figures`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pam.config import Experiment

RESULTS, COSTS = "1. Results", "3. Data and cost"
"""Headings of the report's menu under which tables stand."""

SCORES = {"scores": "{run}/scores.json"}
GOLD_SCORES = {"scores": "{run}/gold_scores.json"}
DEV_SCORES = {"scores": "{run}/dev/scores.json"}
GOLD_SCORES_TOO = {"gold-scores": "{run}/gold_scores.json"}
SIGNIFICANCE = {"significance": "{task}/significance/seed{seed}.json"}
PREDICTIONS = {"predictions": "{run}/beam{beam}/predictions.tsv"}
ANALYSES = {"analyses": "{run}/analysis.json"}
HISTORIES = {"histories": "{run}/history.csv"}
OWNER = ("{run}/run.yaml",)

Condition = Callable[[Experiment, str], bool]
"""Whether something is shown of a task, by the experiment and the task's name."""


def always(experiment: Experiment, task: str) -> bool:
    return True


def has_gold(experiment: Experiment, task: str) -> bool:
    """There are word alignments that its models are held to."""
    return bool(experiment.tasks[task].word_alignments)


def has_baseline(experiment: Experiment, task: str) -> bool:
    """There are the baseline and another model."""
    models = experiment.models_of(task)
    return experiment.baseline in models and len(models) > 1


def has_sizes(experiment: Experiment, task: str) -> bool:
    """Another task is this one on another amount of training data."""
    own = experiment.tasks[task]
    return any(
        other is not own and other.family() == own.family() for other in experiment.tasks.values()
    )


def has_dev(experiment: Experiment, task: str) -> bool:
    """Its development split is decoded too."""
    return bool(experiment.tasks[task].decoding.get("dev", experiment.decoding.dev))


def is_watched(experiment: Experiment, task: str) -> bool:
    """Its trainings measure single symbols and the objective after each epoch."""
    return bool(
        experiment.tasks[task].training.get("eval_metrics", experiment.training.eval_metrics)
    )


def has_one_of(*models: str) -> Condition:
    """One of its models is one of these."""
    return lambda experiment, task: bool(set(models) & set(experiment.models_of(task)))


def both(one: Condition, other: Condition) -> Condition:
    return lambda experiment, task: one(experiment, task) and other(experiment, task)


@dataclass(frozen=True)
class Item:
    """A table or a figure.

    Attributes:
        label: its name in the report's menu.
        kind: kind of task that it shows; None: every kind.
        files: option of its verb to the files that it takes. `{run}` and `{task}` are their
            folders, `{seed}` and `{beam}` a run's seed and its main beam.
        only: which tasks of that kind it shows.
        beside: files that it reads because they stand beside those.
        trained: whether it shows only models with a training of their own.
    """

    label: str
    kind: str | None
    files: Mapping[str, str]
    only: Condition = always
    beside: tuple[str, ...] = ()
    trained: bool = False

    def shows(self, experiment: Experiment, kinds: Mapping[str, str]) -> list[str]:
        """The tasks of an experiment that it shows.

        Args:
            kinds: task to its kind.
        """
        return [
            task
            for task in experiment.tasks
            if self.kind in (None, kinds[task]) and self.only(experiment, task)
        ]


@dataclass(frozen=True)
class Table(Item):
    """A table, and where it stands in the menu; `front`: on the first page too."""

    category: str = RESULTS
    front: bool = False


@dataclass(frozen=True)
class Drawing(Item):
    """A figure: the module of `pam.reporting.figures` that draws it, and its other options."""

    draws: str = field(kw_only=True)
    options: tuple[str, ...] = ()


INFLECTION, TRANSLATION = "inflection", "translation"

ANALYSED = frozenset({TRANSLATION})
"""Kinds of task whose scores have the perplexity of an analysis under teacher forcing."""

LATENT, SAMPLED = has_one_of("acvi", "ved"), has_one_of("variational-sample")
WINDOWED = has_one_of("local-m", "local-p")

TABLES: dict[str, Table] = {
    "table1": Table("Table 1: perplexity and BLEU", TRANSLATION, SCORES, front=True),
    "table1_gains": Table("Table 1: gains over the baseline", TRANSLATION, SCORES),
    "table1_more": Table("sacreBLEU, chrF, exact perplexity", TRANSLATION, SCORES | SIGNIFICANCE),
    "table2": Table("Table 2: accuracy over forms", INFLECTION, SCORES, front=True),
    "table2_gains": Table("Table 2: gains over the baseline", INFLECTION, SCORES),
    "table2_paradigms": Table("Whole paradigms", INFLECTION, SCORES),
    "table2_paradigms_gains": Table("Whole paradigms: gains over the baseline", INFLECTION, SCORES),
    "table3": Table("Table 3: alignment", TRANSLATION, GOLD_SCORES, has_gold, front=True),
    "table3_gains": Table("Table 3: gains over the baseline", TRANSLATION, GOLD_SCORES, has_gold),
    "table1_dev": Table("Table 1: development split", TRANSLATION, DEV_SCORES, has_dev),
    "table_acvi_mt": Table("Latent contexts: BLEU", TRANSLATION, SCORES, LATENT),
    "table_acvi_mt_dev": Table(
        "Latent contexts: BLEU, development split", TRANSLATION, DEV_SCORES, both(LATENT, has_dev)
    ),
    "table_variational": Table(
        "Variational attention: development split",
        TRANSLATION,
        DEV_SCORES,
        both(SAMPLED, has_dev),
    ),
    "table_variational_bleu": Table("Variational attention: BLEU", TRANSLATION, SCORES, SAMPLED),
    "table_ablation": Table("What each part adds", TRANSLATION, SCORES, has_one_of("base")),
    "table_ablation_aer": Table(
        "Alignment error of attentions", TRANSLATION, GOLD_SCORES, both(WINDOWED, has_gold)
    ),
    "attentions": Table("All models at a glance", None, SCORES | GOLD_SCORES_TOO | ANALYSES),
    "examples": Table("Examples of translations", TRANSLATION, PREDICTIONS, beside=OWNER),
    "overhead": Table("Time over the baseline's", None, SCORES, category=COSTS),
    "costs": Table("Cost of every run", None, SCORES, category=COSTS),
    "environment": Table("Versions and hardware", None, SCORES, category=COSTS),
}


def _compared(
    label: str,
    kind: str,
    draws: str,
    metric: str,
    paper: str | None = None,
    files: Mapping[str, str] = SCORES,
    only: Condition = always,
) -> Drawing:
    """A figure of one metric of every model."""
    options = ("--metric", metric, *(("--paper-table", paper) if paper else ()))
    only = has_baseline if draws == "gains" else only
    return Drawing(label, kind, files, only, draws=draws, options=options)


DRAWINGS: dict[str, Drawing] = {
    "bleu": _compared("BLEU", TRANSLATION, "quality", "bleu_b*", "table1"),
    "bleu_gains": _compared("Gains in BLEU", TRANSLATION, "gains", "bleu_b*", "table1"),
    "perplexity": _compared("Perplexity", TRANSLATION, "quality", "ppl", "table1"),
    "alignment": _compared(
        "Alignment: 1 - AER",
        TRANSLATION,
        "quality",
        "one_minus_aer",
        "table3",
        GOLD_SCORES,
        has_gold,
    ),
    "entropy_accuracy": Drawing(
        "Figure 3: entropy and accuracy", TRANSLATION, ANALYSES, draws="entropy_accuracy"
    ),
    "coverage": Drawing("Figure 4: coverage", TRANSLATION, ANALYSES, draws="coverage"),
    "bleu_by_length": Drawing(
        "BLEU by sentence length", TRANSLATION, SCORES, draws="bleu_by_length"
    ),
    "bleu_by_size": Drawing(
        "BLEU by training pairs",
        TRANSLATION,
        SCORES | {"data": "{task}/data/summary.json"},
        has_sizes,
        draws="bleu_by_size",
    ),
    "bleu_cost": _compared("BLEU against cost", TRANSLATION, "cost", "bleu_b*"),
    "accuracy": _compared("Accuracy over forms", INFLECTION, "quality", "accuracy", "table2"),
    "accuracy_paradigms": _compared(
        "Accuracy over paradigms", INFLECTION, "quality", "paradigm_accuracy"
    ),
    "gains": _compared("Gains, forms", INFLECTION, "gains", "accuracy", "table2"),
    "gains_paradigms": _compared("Gains, paradigms", INFLECTION, "gains", "paradigm_accuracy"),
    "cost": _compared("Accuracy against cost", INFLECTION, "cost", "accuracy"),
    "curves": Drawing(
        "Learning curves", None, HISTORIES, beside=OWNER, trained=True, draws="curves"
    ),
    "curves_watched": Drawing(
        "Learning curves: symbols and bound",
        None,
        HISTORIES,
        is_watched,
        beside=OWNER,
        trained=True,
        draws="curves",
        options=("--watched",),
    ),
}
"""Figures of a whole experiment. Heat maps are made for one task and seed each, by `attention`."""
