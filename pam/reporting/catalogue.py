"""List the tables and figures of a report, with the kind of task and the files that each needs.

The workflow reads nothing else to know them, and this file imports nothing that is slow. A report
has each table and figure that at least one of the experiment's tasks can fill.

To add a table: write an entry in `TABLES` and, unless it compares models, its function in
`pam.reporting.tables.BUILDERS`. To add a figure: write an entry in `FIGURES` and, if nothing draws
it yet, its function in `pam.reporting.figures.KINDS` and its module in `FIGURE_CODE`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pydantic import Field

from pam.experiments.config import Experiment, TaskConfig
from pam.experiments.parsing import Strict, parse
from pam.experiments.yaml import placed, read_yaml
from pam.runtime.errors import UserError, unknown
from pam.runtime.files import find_file

# headings of the report's menu under which tables are listed
RESULTS = "1. Results"
COSTS = "3. Data and cost"

# kinds of task
INFLECTION = "inflection"
TRANSLATION = "translation"
SUMMARIZATION = "summarization"
CAPTIONING = "captioning"
ANALYZED = frozenset({TRANSLATION})  # kinds of task whose scores have the perplexity of an analysis

# option of the command that makes a table or a figure -> the files that it takes
SCORES = {"scores": "{run}/scores.json"}
GOLD_SCORES = {"scores": "{run}/gold_scores.json"}
DEV_SCORES = {"scores": "{run}/dev/scores.json"}
SIZED_SCORES = SCORES | {"data": "{task}/data/summary.json"}
ANALYSES = {"analyses": "{run}/analysis.json"}
HISTORIES = {"histories": "{run}/history.csv"}
PREDICTIONS = {"predictions": "{run}/beam{beam}/predictions.tsv"}
RUN_CONFIG = ("{run}/run.yaml",)

ROUGE = ("rouge1", "rouge2", "rougeL")

# An experiment with one of these models gets the comparison of its kind.
LATENT = ("acvi", "ved")
SAMPLED = ("variational-sample",)


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


def refers_to_papers(experiment: Experiment) -> bool:
    """Check whether a task of an experiment names a row of a paper's table.

    Experiments on a user's own data do not.
    """
    return any(task.paper or task.paper_reference for task in experiment.tasks.values())


DEMONSTRATION = "demonstration"


def is_demonstration(task: TaskConfig) -> bool:
    """Check whether the label or the note of a task calls it a demonstration."""
    return DEMONSTRATION in f"{task.label} {task.note}".lower()


def menu_label(item: Item, experiment: Experiment) -> str:
    """Return the name of a table or a figure in the report's menu.

    It has its number in the paper if the experiment refers to papers.
    """
    if refers_to_papers(experiment):
        return item.label

    label = re.sub(r"^(Table|Figure) \d+: ", "", item.label)
    return label[0].upper() + label[1:]


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
class TableSpec(Item):
    """A table, and how it is made."""

    title: str = field(kw_only=True)  # its heading; the experiment's title follows it
    # paper and table that have these metrics, added to the heading if an experiment refers to them
    cites: str = ""
    builder: str = "comparison"  # key of `pam.reporting.tables.BUILDERS`
    # names of the metrics that it compares, or patterns such as `bleu_b*`
    metrics: tuple[str, ...] = ()
    # key in the file of the papers' results; None: no paper reports these metrics
    paper: str | None = None
    category: str = RESULTS  # its place in the menu
    front: bool = False  # whether it is on the first page too
    # patterns of the metric of the finding on the first page, the best one first; empty: the first
    # metric of the table
    finding: tuple[str, ...] = ()


def gains_of(spec: TableSpec, label: str = "") -> TableSpec:
    """Return the same comparison as gains over the baseline, of tasks that have any."""
    # Rows of no model have gains too, where the baseline is the only model.
    needs = spec.needs if spec.controls else (*spec.needs, "gains")
    return replace(spec, label=label, builder="gains", needs=needs, front=False)


_translation = partial(TableSpec, kind=TRANSLATION, files=SCORES)
_inflection = partial(TableSpec, kind=INFLECTION, files=SCORES)
_summaries = partial(TableSpec, kind=SUMMARIZATION, files=SCORES)
_captions = partial(TableSpec, kind=CAPTIONING, files=SCORES)
_costs = partial(TableSpec, kind=None, files=SCORES, category=COSTS)

_TABLE1 = _translation(
    "Table 1: perplexity and BLEU",
    title="Perplexity and BLEU of translation",
    cites="the paper's Table 1",
    metrics=("ppl", "bleu_b*", "bleu_unpenalized_b*", "bleu_characters_b*"),
    paper="table1",
    front=True,
    finding=("bleu_b*", "bleu_characters_b*"),
)
_TABLE2 = _inflection(
    "Table 2: accuracy over forms",
    title="Accuracy over test forms, morphological inflection",
    cites="the paper's Table 2",
    metrics=("accuracy",),
    paper="table2",
    front=True,
)
_PARADIGMS = _inflection(
    "Whole paradigms",
    title="Accuracy over whole paradigms (lemmas with every form right), and character error rate",
    metrics=("paradigm_accuracy", "form_cer"),
)
_TABLE3 = _translation(
    "Table 3: alignment",
    title="Agreement of attention with gold word alignments",
    cites="the paper's Table 3",
    metrics=(
        "one_minus_aer",
        "one_minus_aer_posterior",
        "one_minus_aer_prior",
        "one_minus_aer_late",
        "one_minus_aer_head",
    ),
    paper="table3",
    files=GOLD_SCORES,
    needs=("gold",),
    front=True,
)
_SUMMARIES = _summaries(
    "Summaries: ROUGE and METEOR",
    title="ROUGE and METEOR of summaries",
    cites="Amortized Context Vector Inference, Tables 1 and 5",
    metrics=(*ROUGE, "meteor_exact", "meteor_full"),
    paper="table_acvi_summaries",
    controls=("lead", "random"),
    front=True,
    finding=("rougeL",),
)
_CAPTIONS = _captions(
    "Captions: CIDEr and ROUGE-L",
    title="CIDEr, ROUGE-L and others of captions, on the test split",
    cites="Amortized Context Vector Inference, Table 3",
    metrics=("cider", "rouge_coco", "bleu_coco", "meteor_coco"),
    paper="table_acvi_captions",
    controls=("constant", "nearest", "people"),
    front=True,
)

TABLES: dict[str, TableSpec] = {
    "table1": _TABLE1,
    "table1_gains": gains_of(_TABLE1, "Table 1: gains in perplexity and BLEU"),
    "table1_more": _translation(
        "sacreBLEU, chrF, error rates, exact perplexity",
        title=(
            "sacreBLEU and chrF of readable text, error rates, and perplexity with the exact sum"
            " over positions"
        ),
        metrics=(
            "sacrebleu_b*",
            "chrf_b*",
            "wer_b*",
            "per_b*",
            "cer_b*",
            "ser_b*",
            "exact_match_b*",
            "ppl_exact",
        ),
        files=SCORES | {"significance": "{task}/significance/seed{seed}.json"},
    ),
    "lengths": _translation(
        "Length penalties",
        title="Length penalties chosen on the development split",
        builder="lengths",
        needs=("penalties",),
    ),
    "table2": _TABLE2,
    "table2_gains": gains_of(_TABLE2, "Table 2: gains in accuracy over forms"),
    "table2_paradigms": _PARADIGMS,
    "table2_paradigms_gains": gains_of(_PARADIGMS, "Whole paradigms: gains over the baseline"),
    "table3": _TABLE3,
    "table3_gains": gains_of(_TABLE3, "Table 3: gains in alignment"),
    "table1_dev": _translation(
        "Table 1: development split",
        title="The development split: next symbol, perplexity and BLEU",
        metrics=("token_accuracy", "ppl", "bleu_b*"),
        files=DEV_SCORES,
        needs=("dev",),
    ),
    "table_acvi_mt": _translation(
        "Latent contexts: BLEU",
        title="BLEU on the test split",
        cites="Amortized Context Vector Inference, Table 4",
        metrics=("bleu_b*",),
        paper="table_acvi_mt",
        of=LATENT,
    ),
    "table_acvi_mt_dev": _translation(
        "Latent contexts: BLEU, development split",
        title="BLEU on the development split",
        cites="Amortized Context Vector Inference, Table 4",
        metrics=("bleu_b*",),
        paper="table_acvi_mt_dev",
        files=DEV_SCORES,
        needs=("dev",),
        of=LATENT,
    ),
    "table_variational": _translation(
        "Variational attention: development split",
        title="Accuracy and perplexity on the development split",
        cites="Orlova et al., Latent Alignment and Variational Attention, section 4",
        metrics=("token_accuracy", "ppl"),
        paper="table_variational",
        files=DEV_SCORES,
        needs=("dev",),
        of=SAMPLED,
    ),
    "table_variational_bleu": _translation(
        "Variational attention: BLEU",
        title="BLEU on the test split",
        cites="Orlova et al., Latent Alignment and Variational Attention, section 4",
        metrics=("bleu_b*",),
        paper="table_variational",
        of=SAMPLED,
    ),
    "table_ablation": _translation(
        "What each part adds",
        title="What each part adds to translation without attention",
        cites="Luong et al. 2015, Table 1",
        metrics=("ppl", "bleu_b*"),
        paper="table_ablation",
        of=("luong-base",),
    ),
    "table_ablation_aer": _translation(
        "Alignment error of attentions",
        title="Alignment error rate of attention",
        cites="Luong et al. 2015, Table 6",
        metrics=("aer",),
        paper="table_ablation",
        files=GOLD_SCORES,
        needs=("gold",),
        of=("local-m", "local-p"),
    ),
    "table_acvi_summaries": _SUMMARIES,
    "table_acvi_summaries_gains": gains_of(_SUMMARIES, "Summaries: gains over the baseline"),
    "table_acvi_novelty": _summaries(
        "Summaries: what is new, and what is copied",
        title="New and copied words of summaries",
        cites="Amortized Context Vector Inference, Table 2",
        metrics=(
            "novel_words",
            "novel_*grams",
            "oov_words",
            "copied_sentences",
            "repeated_trigrams",
            "summary_words",
        ),
        paper="table_acvi_novelty",
        controls=("reference", "lead", "random"),
    ),
    "table_acvi_captions": _CAPTIONS,
    "table_acvi_captions_gains": gains_of(_CAPTIONS, "Captions: gains over the baseline"),
    "table_acvi_captions_dev": replace(
        _CAPTIONS,
        label="Captions: development split",
        files=DEV_SCORES,
        needs=("dev",),
        controls=(),
        front=False,
        title="CIDEr, ROUGE-L and others of captions, on the development split",
        paper="table_acvi_captions_dev",
    ),
    "sweeps": TableSpec(
        "Sweeps: value by value",
        None,
        SCORES,
        ("sweep",),
        title="Each value of the options that are swept",
        builder="sweeps",
    ),
    "attentions": TableSpec(
        "All models at a glance",
        None,
        SCORES | {"gold-scores": "{run}/gold_scores.json"} | ANALYSES,
        title="All models at a glance",
        builder="attentions",
    ),
    "examples": _translation(
        "Examples of translations",
        title="Translations of all models",
        builder="examples",
        files=PREDICTIONS,
        also_reads=RUN_CONFIG,
    ),
    "form_examples": _inflection(
        "Examples of forms",
        title="Forms of all models",
        builder="examples",
        files=PREDICTIONS,
        also_reads=RUN_CONFIG,
    ),
    "summary_examples": _summaries(
        "Examples of summaries",
        title="Summaries of all models",
        builder="examples",
        files=PREDICTIONS,
        also_reads=(*RUN_CONFIG, "{task}/data/target.vocab"),
    ),
    "caption_examples": _captions(
        "Examples of captions",
        title="Captions of all models",
        builder="examples",
        files=PREDICTIONS,
        also_reads=(*RUN_CONFIG, "{task}/data/test.tsv"),
    ),
    "overhead": _costs(
        "Time over the baseline's",
        title="Time of every model over the baseline's",
        builder="overhead",
        paper="overhead",
    ),
    "costs": _costs("Cost of every run", title="Cost of every training", builder="costs"),
    "environment": _costs(
        "Versions and hardware", title="Versions and hardware", builder="environment"
    ),
}

_FIGURES = "pam.reporting.figures"
FIGURE_CODE = {
    **dict.fromkeys(("quality", "gains", "cost"), f"{_FIGURES}.models"),
    "sweep": f"{_FIGURES}.sweeps",
    **dict.fromkeys(("curves", "bleu_by_length", "bleu_by_size"), f"{_FIGURES}.curves"),
    **dict.fromkeys(("attention", "entropy_accuracy", "coverage"), f"{_FIGURES}.attention"),
}
"""The module of each kind's function in `figures.KINDS`; figures are drawn again if it changes."""


@dataclass(frozen=True)
class FigureSpec(Item):
    """A figure, and how it is drawn."""

    draws: str = field(kw_only=True)  # its kind, a key of `FIGURE_CODE`
    options: tuple[str, ...] = ()  # of its command, besides those of files


def _compared(
    label: str, kind: str, draws: str, metric: str, paper: str | None = None
) -> FigureSpec:
    """Return the figure of one metric of every model."""
    options: tuple[str, ...] = ("--metric", metric)
    if paper:
        options += ("--paper-table", paper)
    needs = ("gains",) if draws == "gains" else ()

    return FigureSpec(label, kind, SCORES, needs, draws=draws, options=options)


_ALIGNMENT = _compared("Alignment: 1 − AER", TRANSLATION, "quality", "one_minus_aer", "table3")
_CURVES = FigureSpec(
    "Learning curves", None, HISTORIES, also_reads=RUN_CONFIG, trained=True, draws="curves"
)

FIGURES: dict[str, FigureSpec] = {
    "bleu": _compared("BLEU", TRANSLATION, "quality", "bleu_b*", "table1"),
    "bleu_gains": _compared("Gains in BLEU", TRANSLATION, "gains", "bleu_b*", "table1"),
    "perplexity": _compared("Perplexity", TRANSLATION, "quality", "ppl", "table1"),
    "alignment": replace(_ALIGNMENT, files=GOLD_SCORES, needs=("gold",)),
    "entropy_accuracy": FigureSpec(
        "Figure 3: entropy and accuracy", TRANSLATION, ANALYSES, draws="entropy_accuracy"
    ),
    "coverage": FigureSpec("Figure 4: coverage", TRANSLATION, ANALYSES, draws="coverage"),
    "bleu_by_length": FigureSpec(
        "BLEU by sentence length", TRANSLATION, SCORES, draws="bleu_by_length"
    ),
    "bleu_by_size": FigureSpec(
        "BLEU by training pairs", TRANSLATION, SIZED_SCORES, ("sizes",), draws="bleu_by_size"
    ),
    "bleu_cost": _compared("BLEU against cost", TRANSLATION, "cost", "bleu_b*"),
    "rouge": _compared("ROUGE-L", SUMMARIZATION, "quality", "rougeL", "table_acvi_summaries"),
    "rouge_gains": _compared(
        "Gains in ROUGE-L", SUMMARIZATION, "gains", "rougeL", "table_acvi_summaries"
    ),
    "cider": _compared("CIDEr", CAPTIONING, "quality", "cider", "table_acvi_captions"),
    "cider_gains": _compared("Gains in CIDEr", CAPTIONING, "gains", "cider", "table_acvi_captions"),
    "accuracy": _compared("Accuracy over forms", INFLECTION, "quality", "accuracy", "table2"),
    "accuracy_paradigms": _compared(
        "Accuracy over paradigms", INFLECTION, "quality", "paradigm_accuracy"
    ),
    "gains": _compared("Gains in accuracy over forms", INFLECTION, "gains", "accuracy", "table2"),
    "gains_paradigms": _compared(
        "Gains in accuracy over paradigms", INFLECTION, "gains", "paradigm_accuracy"
    ),
    "cost": _compared("Accuracy against cost", INFLECTION, "cost", "accuracy"),
    "sweep": FigureSpec("Sweeps", None, SCORES, ("sweep",), draws="sweep"),
    "curves": _CURVES,
    "curves_watched": replace(
        _CURVES,
        label="Learning curves: symbols and bound",
        needs=("eval_metrics",),
        options=("--eval-metrics",),
    ),
}
"""The figures of a whole experiment. Heat maps, by `attention`, are of one task and seed each."""


# The papers' results, read from one data file.


class PaperTable(Strict):
    """One table of a paper: metric -> row -> model -> value, null where unreadable."""

    source: str = Field(description="paper, section and number of the table")
    note: str = Field("", description="what a reader has to know about its values")
    size: dict[str, int] = Field(
        {}, description="sizes of the network that the paper states, by keys of `network`"
    )
    metrics: dict[str, dict[str, dict[str, float | None]]]

    def value(self, metric: str, row: str | None, model: str) -> float | None:
        """Return the paper's value, or None where it has none or it cannot be read."""
        return self.metrics.get(metric, {}).get(row or "", {}).get(model)


def load_papers(path: Path | str) -> dict[str, PaperTable]:
    """Read all tables of the papers' results.

    Raises:
        UserError: it is not YAML, or a value is no number; the error names the line.
    """
    content = read_yaml(find_file(path))
    if not isinstance(content, dict):
        raise UserError("expected tables by name", file=path, hint="see config/README.md")

    return {
        str(name): parse(PaperTable, value, path, [str(name)]) for name, value in content.items()
    }


def check_rows(
    papers: Mapping[str, PaperTable], experiment: Experiment, files: Sequence[Path | str] = ()
) -> None:
    """Check that tasks are compared with rows that the papers' tables have.

    Args:
        files: those of the experiment's configuration.

    Raises:
        UserError: a task names an unknown row; the error has the place in one of `files`.
    """
    rows = dict.fromkeys(
        row for table in papers.values() for by_row in table.metrics.values() for row in by_row
    )

    for name, task in experiment.tasks.items():
        for key, row in {"paper": task.paper, "paper_reference": task.paper_reference}.items():
            if row is not None and row not in rows:
                error = unknown("row of the papers' tables", row, list(rows))
                raise placed(error, files, ["tasks", name, key])
