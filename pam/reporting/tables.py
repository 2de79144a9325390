"""The tables of `pam.reporting.catalogue.TABLES`, made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from pam.config import Experiment
from pam.evaluation import attention as analysis
from pam.io import unknown
from pam.reporting import attentions, costs, overhead, sheets
from pam.reporting.comparison import Row, compare
from pam.reporting.examples import examples
from pam.reporting.paper import PaperTable, check_rows
from pam.reporting.runs import TaskRuns, load_runs
from pam.reporting.significance import by_sacrebleu
from pam.reporting.typeset import Sheet


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
        """The scored runs.

        Raises:
            UserError: they cannot stand in one table, or a task names a row that no paper has.
        """
        tasks = load_runs(self.scores, self.experiment)
        check_rows(self.papers, tasks)
        return tasks

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """What the experiment says of the tasks that are shown."""
        shown = {row.task: row.task_label for row in rows}
        said = {task: self.experiment.tasks[task].note for task in shown}
        return [f"{shown[task]}: {note}" for task, note in said.items() if note]

    @property
    def title(self) -> str:
        """The experiment's title, to follow a table's."""
        return f": {self.experiment.title}" if self.experiment.title else ""


@dataclass(frozen=True)
class Comparison:
    """A table that sets ours beside a paper's.

    Attributes:
        title: heading; the experiment's title follows it.
        metrics: names or patterns of names of metrics.
        paper: key in the file of the papers' figures; None: no paper reports these metrics.
    """

    title: str
    metrics: tuple[str, ...]
    paper: str | None


COMPARISONS = {
    "table1": Comparison(
        "Perplexity and BLEU of translation (the paper's Table 1)", ("ppl", "bleu_b*"), "table1"
    ),
    "table1_more": Comparison(
        "sacreBLEU and chrF of readable text, and perplexity with the exact sum over positions",
        ("sacrebleu_b*", "chrf_b*", "ppl_exact"),
        None,
    ),
    "table1_dev": Comparison(
        "The development split: next symbol, perplexity and BLEU",
        ("token_accuracy", "ppl", "bleu_b*"),
        None,
    ),
    "table2": Comparison(
        "Accuracy over test forms, morphological inflection (the paper's Table 2)",
        ("accuracy",),
        "table2",
    ),
    "table2_paradigms": Comparison(
        "Accuracy over whole paradigms: lemmas with every form right",
        ("paradigm_accuracy",),
        None,
    ),
    "table_acvi_mt": Comparison(
        "BLEU on the test split (Amortized Context Vector Inference, Table 4)",
        ("bleu_b*",),
        "table_acvi_mt",
    ),
    "table_acvi_mt_dev": Comparison(
        "BLEU on the development split (Amortized Context Vector Inference, Table 4)",
        ("bleu_b*",),
        "table_acvi_mt_dev",
    ),
    "table_variational": Comparison(
        "Accuracy and perplexity on the development split (Orlova et al., Latent Alignment and "
        "Variational Attention, section 4)",
        ("token_accuracy", "ppl"),
        "table_variational",
    ),
    "table_variational_bleu": Comparison(
        "BLEU on the test split (Orlova et al., Latent Alignment and Variational Attention, "
        "section 4)",
        ("bleu_b*",),
        "table_variational",
    ),
    "table_ablation": Comparison(
        "What each part adds to translation without attention (Luong et al. 2015, Table 1)",
        ("ppl", "bleu_b*"),
        "table_ablation",
    ),
    "table_ablation_aer": Comparison(
        "Alignment error rate of attention (Luong et al. 2015, Table 6)",
        ("aer",),
        "table_ablation",
    ),
    "table3": Comparison(
        "Agreement of attention with gold word alignments (the paper's Table 3)",
        ("one_minus_aer", "aer", "one_minus_aer_prior"),
        "table3",
    ),
}
GAINS = "_gains"


def _comparison(spec: Comparison, inputs: Inputs) -> Sheet:
    paper = inputs.papers.get(spec.paper) if spec.paper else None
    rows = compare(inputs.tasks, inputs.experiment, spec.metrics, paper)
    baseline = inputs.experiment.baseline
    extra = by_sacrebleu(inputs.significance)
    title, remarks = spec.title + inputs.title, inputs.notes(rows)
    remarks += _signatures(inputs.tasks, spec.metrics)
    return sheets.comparison(rows, title, paper, baseline, extra, remarks)


def _signatures(tasks: Sequence[TaskRuns], metrics: Sequence[str]) -> list[str]:
    """What sacreBLEU says of how its metrics were computed; one remark, or none."""
    found: dict[str, None] = {}
    for task in tasks:
        for name, signature in task.runs[0].scores.details.get("signatures", {}).items():
            if f"{name}_b*" in metrics:
                found[f"{name} `{signature}`"] = None
    return [f"Signatures of sacreBLEU: {'; '.join(found)}."] if found else []


def _gains(spec: Comparison, inputs: Inputs) -> Sheet:
    paper = inputs.papers.get(spec.paper) if spec.paper else None
    rows = compare(inputs.tasks, inputs.experiment, spec.metrics, paper)
    title, baseline = spec.title + inputs.title, inputs.experiment.baseline
    return sheets.gains(rows, title, paper, baseline, inputs.notes(rows))


def _attentions(inputs: Inputs) -> Sheet:
    gold = load_runs(inputs.gold_scores, inputs.experiment) if inputs.gold_scores else []
    analyses = [analysis.load(path) for path in inputs.analyses]
    return attentions.attentions(inputs.tasks, gold, analyses, inputs.experiment, inputs.title)


def _overhead(inputs: Inputs) -> Sheet:
    paper = inputs.papers.get("overhead")
    return overhead.overhead(inputs.tasks, inputs.experiment, paper, inputs.title)


MAKERS: dict[str, Callable[[Inputs], Sheet]] = {
    **{name: partial(_comparison, spec) for name, spec in COMPARISONS.items()},
    **{name + GAINS: partial(_gains, spec) for name, spec in COMPARISONS.items()},
    "examples": lambda inputs: examples(inputs.experiment, inputs.predictions, inputs.title),
    "attentions": _attentions,
    "overhead": _overhead,
    "costs": lambda inputs: costs.costs(inputs.tasks, inputs.title),
    "environment": lambda inputs: costs.environment(inputs.tasks, inputs.title),
}


def build(name: str, inputs: Inputs) -> Sheet:
    """The sheet called `name`.

    Raises:
        UserError: no such table, or inputs that do not belong together.
    """
    if name not in MAKERS:
        raise unknown("table", name, list(MAKERS))
    return MAKERS[name](inputs)
