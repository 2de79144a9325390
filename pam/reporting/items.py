"""What a table or a figure of a report is, and what an experiment must have to show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pam.experiments.experiment import Experiment

# headings of the report's menu under which tables are listed
RESULTS = "1. Results"
COSTS = "3. Data and cost"


# option of the command that makes a table or a figure -> the files that it takes
SCORES = {"scores": "{run}/scores.json"}
GOLD_SCORES = {"scores": "{run}/gold_scores.json"}
DEV_SCORES = {"scores": "{run}/dev/scores.json"}
SIZED_SCORES = SCORES | {"data": "{task}/data/summary.json"}
ANALYSES = {"analyses": "{run}/analysis.json"}
HISTORIES = {"histories": "{run}/history.csv"}
PREDICTIONS = {"predictions": "{run}/beam{beam}/predictions.tsv"}
RUN_CONFIG = ("{run}/run.yaml",)


def abilities(experiment: Experiment, task: str) -> set[str]:
    """Return what a task has of the things that some tables and figures need."""
    config = experiment.tasks[task]
    models = experiment.models_of(task)
    other_families = {other.family() for other in experiment.tasks.values() if other is not config}
    decoding = experiment.decoding
    training = experiment.training
    points = experiment.points()

    has = {
        # word alignments that those of its models are compared with
        "gold": config.word_alignments,
        # gains over the baseline
        "gains": experiment.baseline in models and len(models) > 1,
        # other amounts of its training data
        "sizes": config.family() in other_families,
        # length penalties to choose from
        "penalties": config.decoding.get("length_penalties", decoding.length_penalties),
        # outputs of its development split
        "dev": config.decoding.get("dev", decoding.dev),
        # several values of an option of one model
        "sweep": points.keys() & set(models),
        # more metrics after each epoch
        "eval_metrics": config.training.get("eval_metrics", training.eval_metrics),
    }

    return {name for name, is_there in has.items() if is_there}


@dataclass(frozen=True)
class Item:
    """A table or a figure.

    In the names of files, `{run}` and `{task}` are their folders, `{seed}` and `{beam}` a run's
    seed and its main beam.
    """

    label: str  # its name in the report's menu
    kind: str | None  # kind of task that it shows; None: every kind
    files: Mapping[str, str]  # option of its command -> the files that it takes
    needs: tuple[str, ...] = ()  # what a task must have to be shown, of `abilities`
    of: tuple[str, ...] = ()  # models of which a task must have one; empty: any
    # files in the same folders that it reads without being given them
    also_reads: tuple[str, ...] = ()
    # outputs that no model made, whose scores it shows below the models'
    controls: tuple[str, ...] = ()
    trained: bool = False  # whether it shows only models with a training of their own

    def of_runs(self) -> set[str]:
        """Return the options whose files are in the folders of runs."""
        return {option for option, pattern in self.files.items() if pattern.startswith("{run}")}

    def shows(self, experiment: Experiment, kinds: Mapping[str, str]) -> list[str]:
        """Return the tasks of an experiment that it shows.

        Args:
            kinds: task -> its kind.
        """
        return [
            task
            for task in experiment.tasks
            if self.kind in (None, kinds[task])
            and abilities(experiment, task).issuperset(self.needs)
            and (not self.of or set(self.of).intersection(experiment.models_of(task)))
        ]


@dataclass(frozen=True)
class Examples:
    """What a table of outputs shows of the rows of a kind of task."""

    rows: str  # what they are, such as `sentences`
    has_words: bool = True  # whether outputs are words, which are shown as the models write them
    # preferred numbers of source words; rows of other lengths are taken where there is none
    lengths: range = range(2**31)
    source_words: int | None = None  # the most words that are shown of a source; None: all
    more_references: int = 0  # references that are shown besides the first
    note: str = ""  # what else a reader has to know
    # `package.module:name` of the function that tells where each word of an output comes from
    origins: str = ""


@dataclass(frozen=True)
class TableSpec(Item):
    """A table, and how it is made."""

    title: str = field(kw_only=True)  # its heading; the experiment's title follows it
    # paper and table that have these metrics, added to the heading if an experiment refers to them
    cites: str = ""
    builder: str = "comparison"  # key of `pam.reporting.catalogue.BUILDERS`
    # names of the metrics that it compares, or patterns such as `bleu_b*`
    metrics: tuple[str, ...] = ()
    # key in the file of the papers' results; None: no paper reports these metrics
    paper: str | None = None
    category: str = RESULTS  # its place in the menu
    front: bool = False  # whether it is on the first page too
    # patterns of the metric of the finding on the first page, the best one first; empty: the first
    # metric of the table
    finding: tuple[str, ...] = ()
    examples: Examples | None = None  # of the builder `examples`


def gains_of(spec: TableSpec, label: str = "") -> TableSpec:
    """Return the same comparison as gains over the baseline, of tasks that have any."""
    # Rows of no model have gains too, where the baseline is the only model.
    needs = spec.needs if spec.controls else (*spec.needs, "gains")
    return replace(spec, label=label, builder="gains", needs=needs, front=False)


@dataclass(frozen=True)
class FigureSpec(Item):
    """A figure, and how it is drawn."""

    draws: str = field(kw_only=True)  # its kind, a key of `pam.reporting.catalogue.DRAWINGS`
    options: tuple[str, ...] = ()  # of its command, besides those of files


def compared(
    label: str, draws: str, metric: str, paper: str | None = None, *, kind: str
) -> FigureSpec:
    """Return the figure of one metric of every model."""
    options: tuple[str, ...] = ("--metric", metric)
    if paper:
        options += ("--paper-table", paper)
    needs = ("gains",) if draws == "gains" else ()

    return FigureSpec(label, kind, SCORES, needs, draws=draws, options=options)
